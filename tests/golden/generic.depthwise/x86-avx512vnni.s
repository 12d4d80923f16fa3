; generic.depthwise version 1 on x86-avx512vnni
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 362 lines, sha256 79b4499247ea7233903843eebfe4d4bd58a2f18fa9654e09c49d02bde4a53a69
; inner loop: 133 instructions, 36 products, 29 loads, 4 stores; on the stack 0 loads, 0 stores
; the loop of x86-amx.s
