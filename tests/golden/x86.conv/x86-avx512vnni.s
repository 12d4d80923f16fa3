; x86.conv version 3 on x86-avx512vnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=14, tile_registers=2, outer=weights, border=skip, unroll=2, store=after, fetch=next,
; last_tile=overlapping
; all code: 860 lines, sha256 779667d1a2b199f6472d8a9caa24b090f65fa453717ac91473403dfd7bda12a2
; inner loop: 109 instructions, 56 products, 32 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of x86-amx.s
