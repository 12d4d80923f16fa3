; cuda.first version 2 on cuda-sm86
; conv2d-u8s8-8x64x64x3-k3x3x32-s2-p1-s32
; products=mma, tile_rows=4, tile_columns=32, bands=1, block_channels=32, threads=128
; CUDA C++: sha256 9515ed421451a58654de1d3826ad39f2f2cb7b5cbacd66398305def379d8536f
; all code: 221 lines, sha256 93003bf7ef67f49d30ac03c5dba3c0d363f909f049d5e95a61e978f08c0e8485
; a thread: REG:66 STACK:0 SHARED:0 LOCAL:0
; inner loop: 177 instructions, 16 products, 30 loads, 9 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm80.s
