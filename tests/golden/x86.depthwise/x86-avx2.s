; x86.depthwise version 2 on x86-avx2
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=2, tile_columns=2, outer=image, border=skip
; all code: 759 lines, sha256 232ba095fad59e8b5e2e9fa2c2f0115f1b361bd643520187d07efd5efa005872
; inner loop: 440 instructions, 96 products, 197 loads, 50 stores; on the stack 85 loads, 46 stores
L0:
 vmovdqu %ymm0, [stack+0]
 vmovdqu %ymm1, [stack+1]
 vmovdqu %ymm2, [stack+2]
 vmovdqu %ymm3, [stack+3]
 vmovdqu %ymm4, [stack+4]
 vmovdqu %ymm5, [stack+5]
 vmovdqu %ymm6, [stack+6]
 vmovdqu %ymm7, [stack+7]
 vmovdqu %ymm8, [stack+8]
 vmovdqu %ymm9, [stack+9]
 vpmaddwd -1472(%r0), %ymm2, %ymm10
 vmovdqa %ymm11, %ymm12
 vpmaddwd -1248(%r0), %ymm6, %ymm11
 vpaddd %ymm11, %ymm10, %ymm10
 vmovdqu -96(%r1), %ymm11
 vmovdqu %ymm11, [stack+10]
 vmovdqu %ymm13, [stack+11]
 vpmaddwd -1504(%r0), %ymm13, %ymm13
 vpaddd %ymm13, %ymm11, %ymm13
 vpaddd %ymm10, %ymm13, %ymm10
 vpmaddwd -1408(%r0), %ymm7, %ymm6
 vpmaddwd -1216(%r0), %ymm4, %ymm13
 vpmaddwd -1184(%r0), %ymm1, %ymm7
 vpaddd %ymm13, %ymm10, %ymm13
 vpaddd %ymm7, %ymm6, %ymm10
 vmovdqu %ymm14, [stack+12]
 vpmaddwd -1440(%r0), %ymm14, %ymm7
 vmovdqu -64(%r1), %ymm4
 vmovdqu %ymm4, [stack+13]
 vpaddd %ymm4, %ymm7, %ymm7
 vpmaddwd -1152(%r0), %ymm15, %ymm2
 vpaddd %ymm10, %ymm7, %ymm10
 vpaddd %ymm10, %ymm2, %ymm4
 vmovdqu %ymm4, [stack+14]
 vpmaddwd -1344(%r0), %ymm5, %ymm10
 vpmaddwd -1120(%r0), %ymm9, %ymm2
 vpaddd %ymm10, %ymm2, %ymm10
 vmovdqu -32(%r1), %ymm11
 vmovdqu [stack+15], %ymm4
 vpmaddwd -1376(%r0), %ymm4, %ymm2
 vpaddd %ymm11, %ymm2, %ymm2
 vpaddd %ymm10, %ymm2, %ymm10
 vmovdqu [stack+16], %ymm9
 vpmaddwd -1280(%r0), %ymm9, %ymm1
 vpmaddwd -1088(%r0), %ymm3, %ymm2
 vpaddd %ymm10, %ymm2, %ymm2
 vpmaddwd -1056(%r0), %ymm8, %ymm10
 vpaddd %ymm10, %ymm1, %ymm10
 vmovdqu (%r1), %ymm3
 vpmaddwd -1312(%r0), %ymm12, %ymm1
 vmovdqa %ymm12, %ymm14
 vpaddd %ymm1, %ymm3, %ymm1
 vpaddd %ymm10, %ymm1, %ymm10
 vpmaddwd -1024(%r0), %ymm0, %ymm1
 vpaddd %ymm10, %ymm1, %ymm1
 vmovdqa -960(%r2,%r3), %ymm10
 vmovdqa -64(%r2,%r3), %ymm8
 vmovdqa %ymm15, %ymm7
 vmovdqu %ymm15, [stack+17]
 vpunpcklbw %ymm8, %ymm10, %ymm15
 vpunpckhbw %ymm8, %ymm10, %ymm10
 vmovdqa 832(%r2,%r3), %ymm8
 vmovdqa 1728(%r2,%r3), %ymm0
 vpunpcklbw %ymm0, %ymm8, %ymm9
 vpunpckhbw %ymm0, %ymm8, %ymm0
 vpunpcklwd %ymm9, %ymm15, %ymm8
 vpunpckhwd %ymm9, %ymm15, %ymm9
 vpunpcklwd %ymm0, %ymm10, %ymm15
 vpunpckhwd %ymm0, %ymm10, %ymm0
 vmovdqu [stack+18], %ymm6
 vpand %ymm8, %ymm6, %ymm10
 vmovdqu %ymm10, [stack+19]
 vpmaddwd -992(%r0), %ymm10, %ymm10
 vpaddd %ymm10, %ymm13, %ymm10
 vpsrlw $8, %ymm8, %ymm5
 vpmaddwd -960(%r0), %ymm5, %ymm8
 vmovdqu %ymm5, [stack+20]
 vpaddd %ymm8, %ymm10, %ymm13
 vpand %ymm9, %ymm6, %ymm10
 vmovdqu %ymm10, [stack+21]
 vpmaddwd -928(%r0), %ymm10, %ymm10
 vpaddd [stack+14], %ymm10, %ymm10
 vpsrlw $8, %ymm9, %ymm9
 vmovdqu %ymm9, [stack+22]
 vpmaddwd -896(%r0), %ymm9, %ymm9
 vpaddd %ymm9, %ymm10, %ymm9
 vmovdqu %ymm9, [stack+23]
 vpand %ymm15, %ymm6, %ymm9
 vmovdqu %ymm9, [stack+24]
 vpmaddwd -864(%r0), %ymm9, %ymm9
 vpaddd %ymm9, %ymm2, %ymm9
 vpsrlw $8, %ymm15, %ymm15
 vmovdqu %ymm15, [stack+25]
 vpmaddwd -832(%r0), %ymm15, %ymm15
 vpaddd %ymm15, %ymm9, %ymm9
 vmovdqu %ymm9, [stack+26]
 vpand %ymm0, %ymm6, %ymm12
 vpmaddwd -800(%r0), %ymm12, %ymm9
 vmovdqu %ymm12, [stack+27]
 vpaddd %ymm9, %ymm1, %ymm9
 vpsrlw $8, %ymm0, %ymm0
 vmovdqu %ymm0, [stack+14]
 vpmaddwd -768(%r0), %ymm0, %ymm0
 vpaddd %ymm0, %ymm9, %ymm9
 vmovdqu %ymm9, [stack+28]
 vmovdqu [stack+11], %ymm9
 vpmaddwd -736(%r0), %ymm9, %ymm9
 vmovdqu [stack+12], %ymm0
 vpmaddwd -672(%r0), %ymm0, %ymm0
 vpaddd [stack+10], %ymm9, %ymm9
 vpaddd [stack+13], %ymm0, %ymm0
 vpmaddwd -608(%r0), %ymm4, %ymm4
 vpaddd %ymm4, %ymm11, %ymm4
 vpmaddwd -544(%r0), %ymm14, %ymm15
 vpaddd %ymm15, %ymm3, %ymm15
 vmovdqu [stack+2], %ymm10
 vpmaddwd -704(%r0), %ymm10, %ymm10
 vmovdqu [stack+6], %ymm8
 vpmaddwd -480(%r0), %ymm8, %ymm8
 vpaddd %ymm8, %ymm10, %ymm10
 vpaddd %ymm10, %ymm9, %ymm9
 vmovdqu [stack+7], %ymm10
 vpmaddwd -640(%r0), %ymm10, %ymm10
 vmovdqu [stack+4], %ymm1
 vpmaddwd -448(%r0), %ymm1, %ymm8
 vmovdqu [stack+1], %ymm11
 vpmaddwd -416(%r0), %ymm11, %ymm11
 vpaddd %ymm8, %ymm9, %ymm9
 vpaddd %ymm11, %ymm10, %ymm10
 vpmaddwd -384(%r0), %ymm7, %ymm8
 vpaddd %ymm10, %ymm0, %ymm0
 vpaddd %ymm8, %ymm0, %ymm0
 vmovdqu [stack+5], %ymm10
 vpmaddwd -576(%r0), %ymm10, %ymm10
 vmovdqu [stack+9], %ymm8
 vpmaddwd -352(%r0), %ymm8, %ymm8
 vpaddd %ymm8, %ymm10, %ymm10
 vpaddd %ymm10, %ymm4, %ymm4
 vmovdqu [stack+16], %ymm10
 vpmaddwd -512(%r0), %ymm10, %ymm10
 vmovdqu [stack+3], %ymm7
 vpmaddwd -320(%r0), %ymm7, %ymm8
 vpaddd %ymm8, %ymm4, %ymm4
 vmovdqu [stack+8], %ymm8
 vpmaddwd -288(%r0), %ymm8, %ymm8
 vpaddd %ymm8, %ymm10, %ymm10
 vpaddd %ymm10, %ymm15, %ymm15
 vmovdqu [stack+0], %ymm14
 vpmaddwd -256(%r0), %ymm14, %ymm10
 vpaddd %ymm10, %ymm15, %ymm15
 vmovdqu [stack+19], %ymm2
 vpmaddwd -224(%r0), %ymm2, %ymm10
 vpmaddwd -192(%r0), %ymm5, %ymm8
 vpaddd %ymm10, %ymm9, %ymm9
 vpaddd %ymm8, %ymm9, %ymm9
 vmovdqu [stack+21], %ymm5
 vpmaddwd -160(%r0), %ymm5, %ymm10
 vpaddd %ymm10, %ymm0, %ymm0
 vmovdqu [stack+22], %ymm10
 vpmaddwd -128(%r0), %ymm10, %ymm10
 vpaddd %ymm10, %ymm0, %ymm0
 vmovdqu [stack+24], %ymm3
 vpmaddwd -96(%r0), %ymm3, %ymm10
 vmovdqu [stack+25], %ymm8
 vpmaddwd -64(%r0), %ymm8, %ymm8
 vpaddd %ymm10, %ymm4, %ymm4
 vpaddd %ymm8, %ymm4, %ymm4
 vmovdqu %ymm4, [stack+16]
 vpmaddwd -32(%r0), %ymm12, %ymm10
 vpaddd %ymm10, %ymm15, %ymm15
 vmovdqu [stack+14], %ymm4
 vpmaddwd (%r0), %ymm4, %ymm10
 vpaddd %ymm10, %ymm15, %ymm4
 vmovdqu %ymm4, [stack+5]
 vcvtdq2ps %ymm13, %ymm10
 vmovups [stack+29], %ymm4
 vmulps %ymm10, %ymm4, %ymm10
 vcvtps2dq %ymm10, %ymm10
 vcvtdq2ps [stack+23], %ymm8
 vmovups [stack+30], %ymm15
 vmulps %ymm8, %ymm15, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vpackssdw %ymm8, %ymm10, %ymm10
 vcvtdq2ps [stack+26], %ymm8
 vmovups [stack+31], %ymm13
 vmulps %ymm8, %ymm13, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps [stack+28], %ymm11
 vmovups [stack+32], %ymm12
 vmulps %ymm11, %ymm12, %ymm11
 vcvtps2dq %ymm11, %ymm11
 vpackssdw %ymm11, %ymm8, %ymm8
 vmovdqu [stack+33], %ymm11
 vpaddsw %ymm11, %ymm10, %ymm10
 vpaddsw %ymm11, %ymm8, %ymm8
 vpackuswb %ymm8, %ymm10, %ymm10
 vmovdqa %ymm10, (%r4,%r3)
 vcvtdq2ps %ymm9, %ymm9
 vmulps %ymm9, %ymm4, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm15, %ymm0
 vcvtps2dq %ymm0, %ymm0
 vpackssdw %ymm0, %ymm9, %ymm9
 vcvtdq2ps [stack+16], %ymm4
 vmulps %ymm4, %ymm13, %ymm4
 vcvtps2dq %ymm4, %ymm4
 vcvtdq2ps [stack+5], %ymm0
 vmulps %ymm0, %ymm12, %ymm0
 vcvtps2dq %ymm0, %ymm0
 vpackssdw %ymm0, %ymm4, %ymm4
 vpaddsw %ymm11, %ymm9, %ymm9
 vpaddsw %ymm11, %ymm4, %ymm4
 vpackuswb %ymm4, %ymm9, %ymm9
 vmovdqa %ymm9, 768(%r4,%r3)
 vmovdqu [stack+6], %ymm9
 vpmaddwd -1504(%r0,%r5), %ymm9, %ymm9
 vmovdqu -96(%r1,%r6,4), %ymm0
 vpaddd %ymm9, %ymm0, %ymm9
 vpmaddwd -1472(%r0,%r5), %ymm1, %ymm4
 vpaddd %ymm4, %ymm9, %ymm9
 vmovdqu -64(%r1,%r6,4), %ymm15
 vmovdqu %ymm15, [stack+16]
 vmovdqu [stack+1], %ymm4
 vpmaddwd -1440(%r0,%r5), %ymm4, %ymm4
 vpaddd %ymm4, %ymm15, %ymm4
 vmovdqu [stack+17], %ymm15
 vpmaddwd -1408(%r0,%r5), %ymm15, %ymm15
 vpaddd %ymm15, %ymm4, %ymm8
 vmovdqu -32(%r1,%r6,4), %ymm15
 vmovdqu [stack+9], %ymm4
 vpmaddwd -1376(%r0,%r5), %ymm4, %ymm4
 vpaddd %ymm4, %ymm15, %ymm4
 vpmaddwd -1344(%r0,%r5), %ymm7, %ymm10
 vpaddd %ymm10, %ymm4, %ymm11
 vmovdqu (%r1,%r6,4), %ymm4
 vmovdqu %ymm4, [stack+15]
 vmovdqu [stack+8], %ymm1
 vpmaddwd -1312(%r0,%r5), %ymm1, %ymm10
 vpmaddwd -1280(%r0,%r5), %ymm14, %ymm13
 vpaddd %ymm10, %ymm4, %ymm10
 vpaddd %ymm13, %ymm10, %ymm13
 vpmaddwd -1248(%r0,%r5), %ymm2, %ymm10
 vpaddd %ymm10, %ymm9, %ymm10
 vpmaddwd -1184(%r0,%r5), %ymm5, %ymm9
 vpaddd %ymm9, %ymm8, %ymm8
 vpmaddwd -1120(%r0,%r5), %ymm3, %ymm9
 vmovdqu [stack+27], %ymm4
 vpmaddwd -1056(%r0,%r5), %ymm4, %ymm14
 vpaddd %ymm9, %ymm11, %ymm11
 vpaddd %ymm13, %ymm14, %ymm9
 vmovdqu %ymm9, [stack+34]
 vmovdqa -896(%r2,%r3), %ymm9
 vmovdqa (%r2,%r3), %ymm13
 vpunpcklbw %ymm13, %ymm9, %ymm14
 vpunpckhbw %ymm13, %ymm9, %ymm9
 vmovdqa 896(%r2,%r3), %ymm13
 vmovdqa 1792(%r2,%r3), %ymm7
 vpunpcklbw %ymm7, %ymm13, %ymm2
 vpunpckhbw %ymm7, %ymm13, %ymm13
 vpunpcklwd %ymm2, %ymm14, %ymm7
 vpunpckhwd %ymm2, %ymm14, %ymm14
 vpunpcklwd %ymm13, %ymm9, %ymm3
 vpunpckhwd %ymm13, %ymm9, %ymm4
 vmovdqu [stack+20], %ymm5
 vpmaddwd -1216(%r0,%r5), %ymm5, %ymm13
 vpand %ymm6, %ymm7, %ymm9
 vmovdqu %ymm9, [stack+2]
 vpmaddwd -992(%r0,%r5), %ymm9, %ymm2
 vpaddd %ymm13, %ymm2, %ymm13
 vpaddd %ymm13, %ymm10, %ymm10
 vpsrlw $8, %ymm7, %ymm9
 vmovdqu %ymm9, [stack+7]
 vpmaddwd -960(%r0,%r5), %ymm9, %ymm13
 vpaddd %ymm13, %ymm10, %ymm9
 vmovdqu %ymm9, [stack+10]
 vmovdqu [stack+22], %ymm12
 vpmaddwd -1152(%r0,%r5), %ymm12, %ymm10
 vpand %ymm6, %ymm14, %ymm9
 vmovdqu %ymm9, [stack+5]
 vpmaddwd -928(%r0,%r5), %ymm9, %ymm13
 vpaddd %ymm13, %ymm10, %ymm10
 vpaddd %ymm10, %ymm8, %ymm8
 vpsrlw $8, %ymm14, %ymm2
 vmovdqu [stack+25], %ymm7
 vpmaddwd -1088(%r0,%r5), %ymm7, %ymm13
 vpand %ymm6, %ymm3, %ymm10
 vmovdqu %ymm10, [stack+35]
 vpmaddwd -896(%r0,%r5), %ymm2, %ymm14
 vmovdqu %ymm2, [stack+23]
 vpmaddwd -864(%r0,%r5), %ymm10, %ymm9
 vpaddd %ymm8, %ymm14, %ymm10
 vmovdqu %ymm10, [stack+12]
 vpaddd %ymm9, %ymm13, %ymm9
 vpaddd %ymm9, %ymm11, %ymm9
 vpsrlw $8, %ymm3, %ymm8
 vmovdqu [stack+14], %ymm10
 vpmaddwd -1024(%r0,%r5), %ymm10, %ymm11
 vpmaddwd -832(%r0,%r5), %ymm8, %ymm13
 vmovdqu %ymm8, [stack+26]
 vpaddd %ymm13, %ymm9, %ymm9
 vmovdqu %ymm9, [stack+13]
 vpand %ymm4, %ymm6, %ymm13
 vpmaddwd -800(%r0,%r5), %ymm13, %ymm9
 vmovdqu %ymm13, [stack+28]
 vpaddd %ymm9, %ymm11, %ymm9
 vpsrlw $8, %ymm4, %ymm4
 vmovdqu %ymm4, [stack+11]
 vpmaddwd -768(%r0,%r5), %ymm4, %ymm4
 vpaddd [stack+34], %ymm9, %ymm9
 vpaddd %ymm4, %ymm9, %ymm9
 vmovdqu %ymm9, [stack+34]
 vmovdqu [stack+6], %ymm9
 vpmaddwd -736(%r0,%r5), %ymm9, %ymm9
 vpaddd %ymm9, %ymm0, %ymm9
 vmovdqu [stack+4], %ymm4
 vpmaddwd -704(%r0,%r5), %ymm4, %ymm4
 vpaddd %ymm4, %ymm9, %ymm9
 vmovdqu [stack+1], %ymm4
 vpmaddwd -672(%r0,%r5), %ymm4, %ymm4
 vmovdqu [stack+17], %ymm0
 vpmaddwd -640(%r0,%r5), %ymm0, %ymm0
 vpaddd [stack+16], %ymm4, %ymm4
 vpaddd %ymm0, %ymm4, %ymm4
 vmovdqu [stack+9], %ymm0
 vpmaddwd -608(%r0,%r5), %ymm0, %ymm0
 vpaddd %ymm0, %ymm15, %ymm0
 vmovdqu [stack+3], %ymm15
 vpmaddwd -576(%r0,%r5), %ymm15, %ymm15
 vpaddd %ymm15, %ymm0, %ymm0
 vpmaddwd -544(%r0,%r5), %ymm1, %ymm15
 vmovdqu [stack+0], %ymm11
 vpmaddwd -512(%r0,%r5), %ymm11, %ymm1
 vpaddd [stack+15], %ymm15, %ymm15
 vpaddd %ymm15, %ymm1, %ymm15
 vmovdqu [stack+19], %ymm11
 vpmaddwd -480(%r0,%r5), %ymm11, %ymm6
 vpaddd %ymm9, %ymm6, %ymm9
 vmovdqu [stack+21], %ymm11
 vpmaddwd -416(%r0,%r5), %ymm11, %ymm6
 vpaddd %ymm4, %ymm6, %ymm4
 vmovdqu [stack+24], %ymm11
 vpmaddwd -352(%r0,%r5), %ymm11, %ymm6
 vmovdqu [stack+27], %ymm11
 vpmaddwd -288(%r0,%r5), %ymm11, %ymm1
 vpaddd %ymm0, %ymm6, %ymm0
 vpaddd %ymm15, %ymm1, %ymm15
 vpmaddwd -448(%r0,%r5), %ymm5, %ymm6
 vmovdqu [stack+2], %ymm14
 vpmaddwd -224(%r0,%r5), %ymm14, %ymm1
 vpaddd %ymm1, %ymm6, %ymm6
 vpaddd %ymm9, %ymm6, %ymm9
 vmovdqa %ymm12, %ymm5
 vpmaddwd -384(%r0,%r5), %ymm12, %ymm6
 vmovdqu [stack+7], %ymm14
 vpmaddwd -192(%r0,%r5), %ymm14, %ymm1
 vpaddd %ymm9, %ymm1, %ymm14
 vmovdqu [stack+5], %ymm9
 vpmaddwd -160(%r0,%r5), %ymm9, %ymm1
 vpaddd %ymm1, %ymm6, %ymm6
 vpaddd %ymm4, %ymm6, %ymm4
 vpmaddwd -128(%r0,%r5), %ymm2, %ymm6
 vpaddd %ymm4, %ymm6, %ymm4
 vpmaddwd -320(%r0,%r5), %ymm7, %ymm6
 vmovdqu [stack+35], %ymm3
 vpmaddwd -96(%r0,%r5), %ymm3, %ymm1
 vpaddd %ymm1, %ymm6, %ymm6
 vpaddd %ymm0, %ymm6, %ymm0
 vpmaddwd -256(%r0,%r5), %ymm10, %ymm6
 vpmaddwd -64(%r0,%r5), %ymm8, %ymm1
 vpmaddwd -32(%r0,%r5), %ymm13, %ymm9
 vpaddd %ymm0, %ymm1, %ymm0
 vpaddd %ymm9, %ymm6, %ymm9
 vpaddd %ymm9, %ymm15, %ymm9
 vcvtdq2ps [stack+10], %ymm15
 vmovups [stack+29], %ymm7
 vmulps %ymm15, %ymm7, %ymm15
 vcvtps2dq %ymm15, %ymm15
 vcvtdq2ps [stack+12], %ymm8
 vmovups [stack+30], %ymm2
 vmulps %ymm8, %ymm2, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vpackssdw %ymm8, %ymm15, %ymm15
 vcvtdq2ps [stack+13], %ymm8
 vmovups [stack+31], %ymm1
 vmulps %ymm8, %ymm1, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vcvtdq2ps [stack+34], %ymm6
 vmovups [stack+32], %ymm10
 vmulps %ymm10, %ymm6, %ymm6
 vcvtps2dq %ymm6, %ymm6
 vpackssdw %ymm6, %ymm8, %ymm8
 vmovdqu [stack+33], %ymm6
 vpaddsw %ymm15, %ymm6, %ymm15
 vpaddsw %ymm8, %ymm6, %ymm8
 vpackuswb %ymm8, %ymm15, %ymm15
 vmovdqa %ymm15, 64(%r4,%r3)
 vmovdqu [stack+11], %ymm12
 vpmaddwd (%r0,%r5), %ymm12, %ymm15
 vpaddd %ymm15, %ymm9, %ymm9
 vcvtdq2ps %ymm14, %ymm15
 vmulps %ymm15, %ymm7, %ymm15
 vcvtps2dq %ymm15, %ymm15
 vcvtdq2ps %ymm4, %ymm4
 vmulps %ymm4, %ymm2, %ymm4
 vcvtps2dq %ymm4, %ymm4
 vpackssdw %ymm4, %ymm15, %ymm4
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm1, %ymm0
 vcvtps2dq %ymm0, %ymm0
 vcvtdq2ps %ymm9, %ymm9
 vmulps %ymm9, %ymm10, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vpackssdw %ymm9, %ymm0, %ymm9
 vpaddsw %ymm4, %ymm6, %ymm4
 vpaddsw %ymm9, %ymm6, %ymm9
 vpackuswb %ymm9, %ymm4, %ymm9
 vmovdqa %ymm9, 832(%r4,%r3)
 subq $-128, %r3
 addq %r7, %r1
 addq %r8, %r0
 vmovups [stack+19], %ymm13
 vmovups [stack+20], %ymm2
 vmovups [stack+21], %ymm14
 vmovdqa %ymm5, %ymm7
 vmovups [stack+24], %ymm9
 vmovups %ymm9, [stack+15]
 vmovdqu [stack+25], %ymm5
 vmovups [stack+14], %ymm9
 vmovups %ymm9, [stack+16]
 vmovups [stack+2], %ymm6
 vmovups [stack+7], %ymm4
 vmovups [stack+5], %ymm1
 vmovups [stack+23], %ymm15
 vmovdqa %ymm3, %ymm9
 vmovups [stack+26], %ymm3
 vmovups [stack+28], %ymm8
 vmovdqa %ymm12, %ymm0
 cmpq $768, %r3
 jne L0
