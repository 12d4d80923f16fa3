; cuda.mma version 3 on cuda-sm86
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=64, block_channels=64, block_depth=64, thread_rows=4, thread_channels=8, stages=3, splits=1, outer=weights,
; added=kernel
; CUDA C++: sha256 f14247698504c45adeed3264ec894e71e82dcd7701aa4288ca9bbb6def16274f
; all code: 651 lines, sha256 6509b174b5c61c6611783a2a405de72e7c56446b64a014c6d802e1a6fecef94c
; a thread: REG:90 STACK:0 SHARED:0 LOCAL:0
; inner loop: 94 instructions, 16 products, 16 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm80.s
