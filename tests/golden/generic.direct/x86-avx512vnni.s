; generic.direct version 1 on x86-avx512vnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=7, tile_blocks=2, outer=weights, unroll=1
; all code: 626 lines, sha256 64308274452ed9b995e95aaefdf24ebd8c55a19fc46e694721bb8d12e838c8da
; inner loop: 33 instructions, 14 products, 9 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of x86-amx.s
