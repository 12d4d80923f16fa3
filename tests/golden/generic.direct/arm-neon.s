; generic.direct version 1 on arm-neon
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=7, tile_blocks=2, outer=weights, unroll=1
; all code: 734 lines, sha256 82e33c5095715ad3c5d080e9b4e831daf925009f84eb6527be43168162c6d092
; inner loop: 56 instructions, 14 products, 8 loads, 0 stores; on the stack 0 loads, 0 stores
; the loop of arm-dotprod.s
