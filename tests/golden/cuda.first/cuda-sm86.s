; cuda.first version 1 on cuda-sm86
; conv2d-u8s8-8x64x64x3-k3x3x32-s2-p1-s32
; products=mma, tile_rows=4, tile_columns=32, bands=1, block_channels=32, threads=128
; CUDA C++: sha256 fd9200c68425a5d2edea869506780a695b63d7c6925be6db10dc5c5f69c1b733
; all code: 221 lines, sha256 d9abc0d65beb6501b3e246fec1652905477b8e737c58f5050a668ed30de745e2
; a thread: REG:66 STACK:0 SHARED:0 LOCAL:0
; inner loop: 177 instructions, 16 products, 30 loads, 9 stores; on the stack 0 loads, 0 stores
; the loop of cuda-sm80.s
