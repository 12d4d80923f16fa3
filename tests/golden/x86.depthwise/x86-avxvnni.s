; x86.depthwise version 2 on x86-avxvnni
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=2, tile_columns=2, outer=image, border=skip
; all code: 499 lines, sha256 808eeeddad5f768e8d2cdb881e6f8ceec47775588a00d4e359ecd88d0959ff31
; inner loop: 205 instructions, 48 products, 91 loads, 15 stores; on the stack 27 loads, 11 stores
L0:
 vmovdqu %ymm0, [stack+0]
 vmovdqu %ymm1, [stack+1]
 vmovdqu %ymm2, [stack+2]
 vmovdqu -96(%r0,%r1), %ymm3
 vmovdqu -64(%r0,%r1), %ymm4
 vmovdqu -32(%r0,%r1), %ymm5
 vmovdqa %ymm3, %ymm6
 {vex} vpdpbusd -736(%r2,%r1,8), %ymm7, %ymm6
 vmovdqa %ymm4, %ymm1
 {vex} vpdpbusd -704(%r2,%r1,8), %ymm8, %ymm1
 vmovdqa %ymm5, %ymm9
 {vex} vpdpbusd -672(%r2,%r1,8), %ymm10, %ymm9
 vmovdqa -960(%r3,%r4), %ymm11
 vmovdqa -64(%r3,%r4), %ymm2
 vpunpcklbw %ymm2, %ymm11, %ymm12
 vpunpckhbw %ymm2, %ymm11, %ymm13
 {vex} vpdpbusd -352(%r2,%r1,8), %ymm7, %ymm3
 vmovdqa 832(%r3,%r4), %ymm11
 {vex} vpdpbusd -320(%r2,%r1,8), %ymm8, %ymm4
 vmovdqa 1728(%r3,%r4), %ymm2
 vpunpcklbw %ymm2, %ymm11, %ymm0
 vpunpckhbw %ymm2, %ymm11, %ymm8
 {vex} vpdpbusd -288(%r2,%r1,8), %ymm10, %ymm5
 vpunpcklwd %ymm0, %ymm12, %ymm7
 vpunpckhwd %ymm0, %ymm12, %ymm12
 vmovdqu (%r0,%r1), %ymm11
 vmovdqa %ymm11, %ymm2
 {vex} vpdpbusd -640(%r2,%r1,8), %ymm14, %ymm2
 {vex} vpdpbusd -256(%r2,%r1,8), %ymm14, %ymm11
 vpunpcklwd %ymm8, %ymm13, %ymm0
 vpunpckhwd %ymm8, %ymm13, %ymm8
 vmovdqa %ymm15, %ymm14
 vmovdqu %ymm15, [stack+3]
 {vex} vpdpbusd -608(%r2,%r1,8), %ymm15, %ymm6
 vmovdqu [stack+0], %ymm15
 {vex} vpdpbusd -576(%r2,%r1,8), %ymm15, %ymm1
 vmovdqu [stack+1], %ymm10
 {vex} vpdpbusd -544(%r2,%r1,8), %ymm10, %ymm9
 vmovdqu [stack+2], %ymm13
 {vex} vpdpbusd -512(%r2,%r1,8), %ymm13, %ymm2
 {vex} vpdpbusd -480(%r2,%r1,8), %ymm7, %ymm6
 {vex} vpdpbusd -448(%r2,%r1,8), %ymm12, %ymm1
 vmovdqu %ymm0, [stack+4]
 {vex} vpdpbusd -416(%r2,%r1,8), %ymm0, %ymm9
 {vex} vpdpbusd -384(%r2,%r1,8), %ymm8, %ymm2
 vmovdqu %ymm8, [stack+5]
 {vex} vpdpbusd -224(%r2,%r1,8), %ymm14, %ymm3
 {vex} vpdpbusd -192(%r2,%r1,8), %ymm15, %ymm4
 {vex} vpdpbusd -160(%r2,%r1,8), %ymm10, %ymm5
 vmovdqa %ymm10, %ymm14
 {vex} vpdpbusd -128(%r2,%r1,8), %ymm13, %ymm11
 {vex} vpdpbusd -96(%r2,%r1,8), %ymm7, %ymm3
 vmovdqa %ymm7, %ymm13
 vmovdqu %ymm7, [stack+6]
 {vex} vpdpbusd -64(%r2,%r1,8), %ymm12, %ymm4
 vmovdqa %ymm12, %ymm10
 vmovdqu %ymm12, [stack+7]
 {vex} vpdpbusd -32(%r2,%r1,8), %ymm0, %ymm5
 {vex} vpdpbusd (%r2,%r1,8), %ymm8, %ymm11
 vcvtdq2ps %ymm6, %ymm8
 vmovups [stack+8], %ymm0
 vmulps %ymm8, %ymm0, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps %ymm1, %ymm1
 vmovups [stack+9], %ymm7
 vmulps %ymm1, %ymm7, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vpackssdw %ymm1, %ymm8, %ymm8
 vpaddsw [stack+10], %ymm8, %ymm8
 vcvtdq2ps %ymm9, %ymm1
 vmovups [stack+11], %ymm12
 vmulps %ymm1, %ymm12, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vcvtdq2ps %ymm2, %ymm6
 vmovups [stack+12], %ymm2
 vmulps %ymm6, %ymm2, %ymm6
 vcvtps2dq %ymm6, %ymm6
 vpackssdw %ymm6, %ymm1, %ymm1
 vpaddsw [stack+10], %ymm1, %ymm1
 vpackuswb %ymm1, %ymm8, %ymm8
 vmovdqa %ymm8, (%r5,%r4)
 vcvtdq2ps %ymm3, %ymm8
 vmulps %ymm8, %ymm0, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps %ymm4, %ymm1
 vmulps %ymm1, %ymm7, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vpackssdw %ymm1, %ymm8, %ymm8
 vpaddsw [stack+10], %ymm8, %ymm8
 vcvtdq2ps %ymm5, %ymm1
 vmulps %ymm1, %ymm12, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vcvtdq2ps %ymm11, %ymm11
 vmulps %ymm11, %ymm2, %ymm11
 vcvtps2dq %ymm11, %ymm11
 vpackssdw %ymm11, %ymm1, %ymm11
 vpaddsw [stack+10], %ymm11, %ymm11
 vpackuswb %ymm11, %ymm8, %ymm11
 vmovdqa %ymm11, 768(%r5,%r4)
 vmovdqu -96(%r6,%r1), %ymm1
 vmovdqu -64(%r6,%r1), %ymm2
 vmovdqu -32(%r6,%r1), %ymm6
 vmovdqu (%r6,%r1), %ymm7
 vmovdqa %ymm1, %ymm8
 vmovdqu [stack+3], %ymm11
 {vex} vpdpbusd -736(%r7,%r1,8), %ymm11, %ymm8
 vmovdqa %ymm2, %ymm9
 {vex} vpdpbusd -704(%r7,%r1,8), %ymm15, %ymm9
 vmovdqa %ymm6, %ymm3
 {vex} vpdpbusd -672(%r7,%r1,8), %ymm14, %ymm3
 vmovdqa %ymm7, %ymm5
 vmovdqu [stack+2], %ymm0
 {vex} vpdpbusd -640(%r7,%r1,8), %ymm0, %ymm5
 {vex} vpdpbusd -608(%r7,%r1,8), %ymm13, %ymm8
 {vex} vpdpbusd -576(%r7,%r1,8), %ymm10, %ymm9
 {vex} vpdpbusd -352(%r7,%r1,8), %ymm11, %ymm1
 vmovdqa -896(%r3,%r4), %ymm4
 {vex} vpdpbusd -320(%r7,%r1,8), %ymm15, %ymm2
 vmovdqa (%r3,%r4), %ymm12
 vpunpcklbw %ymm12, %ymm4, %ymm13
 vpunpckhbw %ymm12, %ymm4, %ymm4
 {vex} vpdpbusd -288(%r7,%r1,8), %ymm14, %ymm6
 vmovdqa 896(%r3,%r4), %ymm12
 {vex} vpdpbusd -256(%r7,%r1,8), %ymm0, %ymm7
 vmovdqa 1792(%r3,%r4), %ymm15
 vpunpcklbw %ymm15, %ymm12, %ymm11
 vpunpckhbw %ymm15, %ymm12, %ymm12
 vpunpcklwd %ymm11, %ymm13, %ymm0
 {vex} vpdpbusd -480(%r7,%r1,8), %ymm0, %ymm8
 vmovdqu %ymm0, [stack+1]
 vpunpckhwd %ymm11, %ymm13, %ymm11
 vmovdqu %ymm11, [stack+2]
 {vex} vpdpbusd -448(%r7,%r1,8), %ymm11, %ymm9
 vpunpcklwd %ymm12, %ymm4, %ymm13
 vmovdqu %ymm13, [stack+3]
 vpunpckhwd %ymm12, %ymm4, %ymm14
 vcvtdq2ps %ymm8, %ymm8
 vmovups [stack+8], %ymm15
 vmulps %ymm8, %ymm15, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps %ymm9, %ymm12
 vmovups [stack+9], %ymm4
 vmulps %ymm12, %ymm4, %ymm12
 vcvtps2dq %ymm12, %ymm12
 vpackssdw %ymm12, %ymm8, %ymm8
 vmovdqu [stack+4], %ymm10
 {vex} vpdpbusd -544(%r7,%r1,8), %ymm10, %ymm3
 vmovdqu [stack+5], %ymm9
 {vex} vpdpbusd -512(%r7,%r1,8), %ymm9, %ymm5
 {vex} vpdpbusd -416(%r7,%r1,8), %ymm13, %ymm3
 {vex} vpdpbusd -384(%r7,%r1,8), %ymm14, %ymm5
 vcvtdq2ps %ymm3, %ymm12
 vmovups [stack+11], %ymm13
 vmulps %ymm12, %ymm13, %ymm12
 vcvtps2dq %ymm12, %ymm12
 vcvtdq2ps %ymm5, %ymm5
 vmovups [stack+12], %ymm11
 vmulps %ymm11, %ymm5, %ymm5
 vcvtps2dq %ymm5, %ymm5
 vpackssdw %ymm5, %ymm12, %ymm12
 vpaddsw [stack+10], %ymm8, %ymm8
 vpaddsw [stack+10], %ymm12, %ymm12
 vpackuswb %ymm12, %ymm8, %ymm8
 vmovdqu [stack+10], %ymm3
 vmovdqa %ymm8, 64(%r5,%r4)
 vmovdqu [stack+6], %ymm12
 {vex} vpdpbusd -224(%r7,%r1,8), %ymm12, %ymm1
 vmovdqu [stack+7], %ymm5
 {vex} vpdpbusd -192(%r7,%r1,8), %ymm5, %ymm2
 {vex} vpdpbusd -96(%r7,%r1,8), %ymm0, %ymm1
 vmovdqu [stack+2], %ymm0
 {vex} vpdpbusd -64(%r7,%r1,8), %ymm0, %ymm2
 vcvtdq2ps %ymm1, %ymm8
 vmulps %ymm8, %ymm15, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps %ymm2, %ymm1
 vmulps %ymm1, %ymm4, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vpackssdw %ymm1, %ymm8, %ymm8
 {vex} vpdpbusd -160(%r7,%r1,8), %ymm10, %ymm6
 {vex} vpdpbusd -128(%r7,%r1,8), %ymm9, %ymm7
 vmovdqu [stack+3], %ymm4
 {vex} vpdpbusd -32(%r7,%r1,8), %ymm4, %ymm6
 {vex} vpdpbusd (%r7,%r1,8), %ymm14, %ymm7
 vcvtdq2ps %ymm6, %ymm1
 vmulps %ymm1, %ymm13, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vcvtdq2ps %ymm7, %ymm6
 vmulps %ymm6, %ymm11, %ymm6
 vcvtps2dq %ymm6, %ymm6
 vpackssdw %ymm6, %ymm1, %ymm1
 vpaddsw %ymm8, %ymm3, %ymm8
 vpaddsw %ymm1, %ymm3, %ymm1
 vpackuswb %ymm1, %ymm8, %ymm8
 vmovdqa %ymm8, 832(%r5,%r4)
 subq $-128, %r4
 addq %r8, %r1
 vmovdqa %ymm12, %ymm7
 vmovdqa %ymm5, %ymm8
 vmovups [stack+1], %ymm15
 vmovdqa %ymm4, %ymm1
 vmovdqa %ymm14, %ymm2
 vmovdqa %ymm9, %ymm14
 cmpq $768, %r4
 jne L0
