; generic.direct version 1 on generic
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=5, tile_blocks=2, outer=weights, unroll=1
; all code: 686 lines, sha256 63394d61f60980626eb5fcf509848ff884efd92aba8fb85902ed8652fb1a56ab
; inner loop: 36 instructions, 10 products, 7 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of x86-avx2.s
