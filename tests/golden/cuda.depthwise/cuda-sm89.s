; cuda.depthwise version 2 on cuda-sm89
; dwconv2d-u8s8-8x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=1, tile_columns=1, threads=64
; CUDA C++: sha256 10a3e3eaae6b8267ebea9490ca06cf109128600c4d651e08812b42bfc7d7282f
; all code: 128 lines, sha256 59920b42138e6d34db0bdb63f3067290cee970065fecb6b116c8ade1617172b0
; a thread: REG:40 STACK:0 SHARED:0 LOCAL:0
; inner loop: 125 instructions, 12 products, 17 loads, 1 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
