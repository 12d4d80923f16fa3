; cuda.mma version 1 on cuda-sm89
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=64, block_channels=64, block_depth=64, thread_rows=4, thread_channels=8, stages=3, splits=1, outer=weights
; CUDA C++: sha256 14c5b66fa5f634195276d481f576351e7a3ca2d88027eee2f7f81d9c01587007
; all code: 669 lines, sha256 a164b8cfdf1a80437a75d4a49c5f241bce4440bc3e748db1674f0dcec2d80e68
; a thread: REG:90 STACK:0 SHARED:0 LOCAL:0
; inner loop: 100 instructions, 16 products, 16 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm80.s
