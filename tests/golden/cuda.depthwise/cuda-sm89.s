; cuda.depthwise version 4 on cuda-sm89
; dwconv2d-u8s8-8x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=1, tile_columns=1, threads=64, steps=1
; CUDA C++: sha256 eee6a6d7ad5f4bcd93478103fb6bc444904cd00779fb02ff541989c47bb11788
; all code: 135 lines, sha256 54463e8fc41622b5fe7945bcb9e50f86c53b9a39620bdfb9cf584049b74e92c6
; a thread: REG:40 STACK:0 SHARED:0 LOCAL:0
; inner loop: 132 instructions, 12 products, 17 loads, 1 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
