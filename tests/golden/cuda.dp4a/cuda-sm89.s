; cuda.dp4a version 3 on cuda-sm89
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=16, block_channels=16, block_depth=32, thread_rows=2, thread_channels=4, stages=3, splits=1, outer=weights,
; added=kernel
; CUDA C++: sha256 da02c6bc2ff1ef3ae8332c1fc0c91baedaa917aeef23c92910b49fa3047f7476
; all code: 338 lines, sha256 98c40c610ca41a88c958a1ce2f22ae6f017452b284c24646468451206f94bdef
; a thread: REG:76 STACK:0 SHARED:0 LOCAL:0
; inner loop: 130 instructions, 64 products, 18 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
