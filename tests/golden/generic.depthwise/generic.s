; generic.depthwise version 1 on generic
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 414 lines, sha256 68c9bafd7cefa6429651b6c3e481fe5ce7ddbb14e4b85517ee0ea515fa5a62b9
; inner loop: 149 instructions, 36 products, 29 loads, 4 stores; on the stack 0 loads, 0 stores
; the loop of x86-avx2.s
