; cuda.depthwise version 1 on cuda-sm89
; dwconv2d-u8s8-8x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=1, tile_columns=1, threads=128
; CUDA C++: sha256 9564bf78544ebd3651e3363e91d8d2e1119685d3d91bb9e4f2035d1bd2011942
; all code: 128 lines, sha256 418b48adb40b861def3543b543b0389f0d5bd4016272f89838debb02d24ab57e
; a thread: REG:40 STACK:0 SHARED:0 LOCAL:0
; inner loop: 125 instructions, 12 products, 17 loads, 1 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
