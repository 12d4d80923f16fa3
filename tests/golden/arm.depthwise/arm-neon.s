; arm.depthwise version 1 on arm-neon
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; products=pairs, tile_columns=3, tile_channels=16, outer=channels
; all code: 679 lines, sha256 7eafc720a9d30306953e0a2275e145882c4c406c2a6f2c97770de78561c19d2c
; inner loop: 139 instructions, 54 products, 21 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of arm-dotprod.s
