; generic.depthwise version 1 on arm-neon
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 353 lines, sha256 d2563f1f5d2f5723990471eebe9971c111c2407de6019c82a58c4df6a255a555
; inner loop: 143 instructions, 36 products, 26 loads, 4 stores; on the stack 0 loads, 0 stores
; the loop of arm-dotprod.s
