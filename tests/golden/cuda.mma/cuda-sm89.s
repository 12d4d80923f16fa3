; cuda.mma version 4 on cuda-sm89
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=64, block_channels=64, block_depth=64, thread_rows=4, thread_channels=8, stages=3, splits=1, outer=weights,
; added=kernel
; CUDA C++: sha256 6faba130615fd0cb2676c2e0d583e112f8d1ade40fd3301f4e65d0fb6b868d9a
; all code: 679 lines, sha256 85b777092daa073c63c796ae504aae938b4dfd07f8adb4404c9de8b51dbccb87
; a thread: REG:105 STACK:0 SHARED:0 LOCAL:0
; inner loop: 94 instructions, 16 products, 16 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
