; x86.depthwise version 2 on x86-avx512vnni
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=2, tile_columns=2, outer=image, border=skip
; all code: 428 lines, sha256 2742cc4e4166568d07c31fba5c493dee6f53511514559ebb4fa8d02874093d1e
; inner loop: 171 instructions, 48 products, 66 loads, 4 stores; on the stack 2 loads, 0 stores
; the loop of x86-amx.s
