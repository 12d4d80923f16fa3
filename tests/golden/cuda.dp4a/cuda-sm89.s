; cuda.dp4a version 4 on cuda-sm89
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=16, block_channels=16, block_depth=32, thread_rows=2, thread_channels=4, stages=3, splits=1, outer=weights,
; added=kernel
; CUDA C++: sha256 fde1655dfe704bccbcc1f09149cb02c51c925e7261cf4bc241aa0250bbc96147
; all code: 368 lines, sha256 b0c17ff18068805f998c6ada77776f6f6dd9ca37b976885a0267fb2bd71f3c95
; a thread: REG:89 STACK:0 SHARED:0 LOCAL:0
; inner loop: 130 instructions, 64 products, 18 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
