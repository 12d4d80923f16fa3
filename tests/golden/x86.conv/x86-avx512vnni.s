; x86.conv version 2 on x86-avx512vnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=14, tile_registers=2, outer=weights, border=skip, unroll=2, store=after, fetch=demand
; all code: 834 lines, sha256 ed125f51830b3f4c7b61b7bf7ec58105218f3798faceb7e1fdcc21882f705aeb
; inner loop: 104 instructions, 56 products, 32 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of x86-amx.s
