; cuda.depthwise version 3 on cuda-sm89
; dwconv2d-u8s8-8x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=1, tile_columns=1, threads=64
; CUDA C++: sha256 78ab6b42de28bce96a0eabeaecceb844ddeb2ae071ecc019b5636ea73be6a6bd
; all code: 135 lines, sha256 54463e8fc41622b5fe7945bcb9e50f86c53b9a39620bdfb9cf584049b74e92c6
; a thread: REG:40 STACK:0 SHARED:0 LOCAL:0
; inner loop: 132 instructions, 12 products, 17 loads, 1 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm86.s
