; generic.direct version 1 on arm-dotprod
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=7, tile_blocks=2, outer=weights, unroll=1
; all code: 734 lines, sha256 82e33c5095715ad3c5d080e9b4e831daf925009f84eb6527be43168162c6d092
; inner loop: 56 instructions, 14 products, 8 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 ldur b0, [x0, #-192]
 ldur b1, [x0, #-128]
 subs x1, x1, #1
 ldur b2, [x0, #-64]
 ldr b3, [x0]
 ldr b4, [x0, #64]
 dup v0.4h, v0.h[0]
 ldr b5, [x0, #128]
 dup v1.4h, v1.h[0]
 ldr b6, [x0, #192]
 dup v2.4h, v2.h[0]
 dup v3.4h, v3.h[0]
 dup v4.4h, v4.h[0]
 dup v5.4h, v5.h[0]
 add x0, x0, #1
 dup v6.4h, v6.h[0]
 ldp s7, s8, [x2, #-4]
 ushll v0.4s, v0.4h, #0
 ushll v1.4s, v1.4h, #0
 add x2, x2, #8
 ushll v2.4s, v2.4h, #0
 ushll v3.4s, v3.4h, #0
 ushll v4.4s, v4.4h, #0
 ushll v5.4s, v5.4h, #0
 sshll v7.8h, v7.8b, #0
 and v0.16b, v0.16b, v9.16b
 ushll v6.4s, v6.4h, #0
 and v1.16b, v1.16b, v9.16b
 and v2.16b, v2.16b, v9.16b
 sshll v8.8h, v8.8b, #0
 and v3.16b, v3.16b, v9.16b
 and v4.16b, v4.16b, v9.16b
 and v5.16b, v5.16b, v9.16b
 xtn v0.4h, v0.4s
 and v6.16b, v6.16b, v9.16b
 xtn v1.4h, v1.4s
 xtn v2.4h, v2.4s
 xtn v3.4h, v3.4s
 xtn v4.4h, v4.4s
 xtn v5.4h, v5.4s
 smlal v10.4s, v0.4h, v7.4h
 smlal v11.4s, v0.4h, v8.4h
 xtn v0.4h, v6.4s
 smlal v12.4s, v1.4h, v7.4h
 smlal v13.4s, v1.4h, v8.4h
 smlal v14.4s, v2.4h, v7.4h
 smlal v15.4s, v2.4h, v8.4h
 smlal v16.4s, v3.4h, v7.4h
 smlal v17.4s, v3.4h, v8.4h
 smlal v18.4s, v4.4h, v7.4h
 smlal v19.4s, v4.4h, v8.4h
 smlal v20.4s, v5.4h, v7.4h
 smlal v21.4s, v5.4h, v8.4h
 smlal v22.4s, v0.4h, v7.4h
 smlal v23.4s, v0.4h, v8.4h
 b.ne L0
