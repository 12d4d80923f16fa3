; x86.grouped version 3 on x86-avx512vnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8
; tile_columns=4, tile_registers=4, outer=weights, border=skip, order=words, fetch=demand
; all code: 658 lines, sha256 928bb94c06844b3bc1bec21904c5cf462ea312968052baaa053b963a6fc15270
; inner loop: 366 instructions, 144 products, 100 loads, 4 stores; on the stack 82 loads, 0 stores
; the loop of x86-amx.s
