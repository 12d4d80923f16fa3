; cuda.dp4a version 1 on cuda-sm89
; conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8
; block_rows=16, block_channels=16, block_depth=32, thread_rows=2, thread_channels=4, stages=3, splits=1, outer=weights
; CUDA C++: sha256 7d5cfcd46c4edaefca9c612df45c98f9746be69a49c0b8ca99f75b72c2af3095
; all code: 349 lines, sha256 8b88a9a49b6f9b99185024ea089b3692b7a8b372cb2b17ada2d7b1678dda82bd
; a thread: REG:76 STACK:0 SHARED:0 LOCAL:0
; inner loop: 132 instructions, 64 products, 18 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
