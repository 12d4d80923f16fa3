; generic.depthwise version 1 on arm-dotprod
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 353 lines, sha256 d2563f1f5d2f5723990471eebe9971c111c2407de6019c82a58c4df6a255a555
; inner loop: 143 instructions, 36 products, 26 loads, 4 stores; on the stack 0 loads, 0 stores
L0:
 ldp s0, s1, [x0, #-12]
 ldr s2, [x1, #64]
 ldr s3, [x1, #128]
 ldr s4, [x1, #256]
 ldr s5, [x1]
 ushll v6.8h, v2.8b, #0
 ldr s7, [x1, #896]
 sshll v2.8h, v0.8b, #0
 ldr s0, [x1, #192]
 ushll v8.8h, v3.8b, #0
 ldur s3, [x0, #-16]
 ushll v9.8h, v4.8b, #0
 ushll v5.8h, v5.8b, #0
 ushll v10.8h, v0.8b, #0
 sshll v1.8h, v1.8b, #0
 sshll v11.8h, v3.8b, #0
 smull v3.4s, v2.4h, v8.4h
 smull v4.4s, v2.4h, v6.4h
 smull v0.4s, v2.4h, v10.4h
 smull v2.4s, v9.4h, v2.4h
 smlal v3.4s, v6.4h, v11.4h
 smlal v4.4s, v5.4h, v11.4h
 ldr s6, [x1, #320]
 ldur s5, [x0, #-4]
 smlal v0.4s, v8.4h, v11.4h
 smlal v2.4s, v10.4h, v11.4h
 ldr s11, [x1, #960]
 ushll v6.8h, v6.8b, #0
 smlal v3.4s, v1.4h, v10.4h
 smlal v4.4s, v1.4h, v8.4h
 sshll v8.8h, v5.8b, #0
 ushll v11.8h, v11.8b, #0
 ushll v5.8h, v7.8b, #0
 ldr s10, [x1, #1024]
 smlal v0.4s, v1.4h, v9.4h
 smlal v2.4s, v6.4h, v1.4h
 ldr s7, [x1, #1088]
 ldp s9, s6, [x0]
 ushll v10.8h, v10.8b, #0
 smlal v3.4s, v11.4h, v8.4h
 smlal v4.4s, v5.4h, v8.4h
 ushll v5.8h, v7.8b, #0
 ldr s1, [x1, #1152]
 ldr s7, [x1, #1792]
 sshll v9.8h, v9.8b, #0
 smlal v0.4s, v10.4h, v8.4h
 sshll v6.8h, v6.8b, #0
 smlal v2.4s, v5.4h, v8.4h
 ushll v8.8h, v1.8b, #0
 ushll v7.8h, v7.8b, #0
 smlal v3.4s, v9.4h, v10.4h
 smlal v4.4s, v9.4h, v11.4h
 ldr s11, [x1, #1216]
 smlal v0.4s, v9.4h, v5.4h
 smlal v2.4s, v8.4h, v9.4h
 ushll v11.8h, v11.8b, #0
 ldr s9, [x1, #1856]
 smlal v3.4s, v6.4h, v5.4h
 ldp s1, s5, [x0, #8]
 smlal v4.4s, v6.4h, v10.4h
 ldr s10, [x1, #1920]
 smlal v0.4s, v6.4h, v8.4h
 ldr s8, [x1, #1984]
 smlal v2.4s, v11.4h, v6.4h
 ushll v9.8h, v9.8b, #0
 sshll v1.8h, v1.8b, #0
 ushll v6.8h, v10.8b, #0
 sshll v5.8h, v5.8b, #0
 ushll v8.8h, v8.8b, #0
 ldr s10, [x1, #2048]
 ldr s11, [x0, #16]
 add x0, x0, #36
 smlal v4.4s, v7.4h, v1.4h
 smlal v3.4s, v9.4h, v1.4h
 smlal v0.4s, v6.4h, v1.4h
 smlal v2.4s, v8.4h, v1.4h
 ushll v10.8h, v10.8b, #0
 smlal v4.4s, v5.4h, v9.4h
 sshll v9.8h, v11.8b, #0
 ldr s11, [x1, #2112]
 smlal v3.4s, v5.4h, v6.4h
 smlal v0.4s, v5.4h, v8.4h
 smlal v2.4s, v10.4h, v5.4h
 add x1, x1, #4
 smlal v4.4s, v9.4h, v6.4h
 ushll v6.8h, v11.8b, #0
 smlal v3.4s, v9.4h, v8.4h
 smlal v0.4s, v9.4h, v10.4h
 ldr q8, [x2, x3]
 smlal v2.4s, v6.4h, v9.4h
 ldr q9, [x4, x3]
 add x3, x3, #16
 add v4.4s, v4.4s, v8.4s
 cmp x3, #256
 add v3.4s, v3.4s, v8.4s
 add v0.4s, v0.4s, v8.4s
 add v2.4s, v2.4s, v8.4s
 scvtf v4.4s, v4.4s
 scvtf v3.4s, v3.4s
 scvtf v0.4s, v0.4s
 scvtf v2.4s, v2.4s
 fmul v4.4s, v9.4s, v4.4s
 fmul v3.4s, v9.4s, v3.4s
 fmul v0.4s, v9.4s, v0.4s
 fmul v2.4s, v9.4s, v2.4s
 fcmgt v9.4s, v4.4s, v12.4s
 fcmgt v6.4s, v3.4s, v12.4s
 fcmgt v8.4s, v0.4s, v12.4s
 fcmgt v5.4s, v2.4s, v12.4s
 bif v4.16b, v12.16b, v9.16b
 bif v3.16b, v12.16b, v6.16b
 bif v0.16b, v12.16b, v8.16b
 bif v2.16b, v12.16b, v5.16b
 fcmgt v9.4s, v13.4s, v4.4s
 fcmgt v6.4s, v13.4s, v3.4s
 fcmgt v8.4s, v13.4s, v0.4s
 fcmgt v5.4s, v13.4s, v2.4s
 bif v4.16b, v13.16b, v9.16b
 bif v3.16b, v13.16b, v6.16b
 bif v0.16b, v13.16b, v8.16b
 bif v2.16b, v13.16b, v5.16b
 fadd v4.4s, v4.4s, v14.4s
 fadd v3.4s, v3.4s, v14.4s
 fadd v0.4s, v0.4s, v14.4s
 fadd v2.4s, v2.4s, v14.4s
 add v4.4s, v15.4s, v4.4s
 add v3.4s, v15.4s, v3.4s
 add v0.4s, v15.4s, v0.4s
 add v2.4s, v15.4s, v2.4s
 xtn v4.4h, v4.4s
 xtn v3.4h, v3.4s
 xtn v0.4h, v0.4s
 xtn v2.4h, v2.4s
 uzp1 v4.8b, v4.8b, v15.8b
 uzp1 v3.8b, v3.8b, v15.8b
 uzp1 v0.8b, v0.8b, v15.8b
 uzp1 v2.8b, v2.8b, v15.8b
 stur s4, [x5, #-128]
 stur s3, [x5, #-64]
 str s0, [x5]
 str s2, [x5, #64]
 add x5, x5, #4
 b.ne L0
