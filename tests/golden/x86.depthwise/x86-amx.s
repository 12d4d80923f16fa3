; x86.depthwise version 2 on x86-amx
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_rows=2, tile_columns=2, outer=image, border=skip
; all code: 428 lines, sha256 2742cc4e4166568d07c31fba5c493dee6f53511514559ebb4fa8d02874093d1e
; inner loop: 171 instructions, 48 products, 66 loads, 4 stores; on the stack 2 loads, 0 stores
L0:
 vmovdqu64 -192(%r0), %zmm0
 vmovdqu64 -128(%r0), %zmm1
 vmovdqu64 -64(%r0), %zmm2
 vmovdqu64 (%r0), %zmm3
 vmovaps %zmm4, %zmm5
 vmovaps %zmm6, %zmm4
 vmovdqa64 %zmm0, %zmm6
 vpdpbusd -1472(%r1), %zmm7, %zmm6
 vmovdqa64 %zmm1, %zmm8
 vpdpbusd -1408(%r1), %zmm9, %zmm8
 vmovdqa64 %zmm2, %zmm10
 vpdpbusd -1344(%r1), %zmm11, %zmm10
 vmovdqa64 %zmm3, %zmm12
 vmovdqa64 -1984(%r2,%r3), %zmm13
 vmovdqa64 -1088(%r2,%r3), %zmm14
 vpdpbusd -1280(%r1), %zmm15, %zmm12
 vmovdqa64 -192(%r2,%r3), %zmm16
 vmovdqa64 704(%r2,%r3), %zmm17
 vpdpbusd -1216(%r1), %zmm18, %zmm6
 vpunpcklbw %zmm14, %zmm13, %zmm19
 vpunpckhbw %zmm14, %zmm13, %zmm14
 vpunpcklbw %zmm17, %zmm16, %zmm13
 vpdpbusd -1152(%r1), %zmm20, %zmm8
 vpunpckhbw %zmm17, %zmm16, %zmm21
 vpdpbusd -704(%r1), %zmm7, %zmm0
 vpunpcklwd %zmm13, %zmm19, %zmm7
 vpdpbusd -1088(%r1), %zmm22, %zmm10
 vpdpbusd -640(%r1), %zmm9, %zmm1
 vpdpbusd -576(%r1), %zmm11, %zmm2
 vpdpbusd -1024(%r1), %zmm23, %zmm12
 vpunpckhwd %zmm13, %zmm19, %zmm9
 vpunpcklwd %zmm21, %zmm14, %zmm11
 vpdpbusd -512(%r1), %zmm15, %zmm3
 vpdpbusd -448(%r1), %zmm18, %zmm0
 vmovdqu64 -192(%r0,%r4,4), %zmm17
 vmovdqu64 -128(%r0,%r4,4), %zmm16
 vpdpbusd -384(%r1), %zmm20, %zmm1
 vmovdqu64 -64(%r0,%r4,4), %zmm13
 vmovdqu64 (%r0,%r4,4), %zmm15
 vmovdqa64 %zmm17, %zmm24
 vpdpbusd -320(%r1), %zmm22, %zmm2
 vpdpbusd -1472(%r1,%r5), %zmm18, %zmm24
 vmovdqa64 %zmm16, %zmm25
 vpdpbusd -1408(%r1,%r5), %zmm20, %zmm25
 vmovdqa64 %zmm13, %zmm26
 vpdpbusd -256(%r1), %zmm23, %zmm3
 vpdpbusd -1344(%r1,%r5), %zmm22, %zmm26
 vmovdqa64 %zmm15, %zmm19
 vpdpbusd -1280(%r1,%r5), %zmm23, %zmm19
 vpdpbusd -960(%r1), %zmm7, %zmm6
 vmovdqa64 -1920(%r2,%r3), %zmm27
 vmovdqa64 -1024(%r2,%r3), %zmm28
 vpdpbusd -896(%r1), %zmm9, %zmm8
 vmovdqa64 -128(%r2,%r3), %zmm29
 vmovdqa64 768(%r2,%r3), %zmm30
 vpdpbusd -832(%r1), %zmm11, %zmm10
 vpunpckhwd %zmm21, %zmm14, %zmm14
 vpdpbusd -704(%r1,%r5), %zmm18, %zmm17
 vpunpcklbw %zmm28, %zmm27, %zmm21
 vpdpbusd -768(%r1), %zmm14, %zmm12
 vpunpckhbw %zmm28, %zmm27, %zmm27
 vpdpbusd -640(%r1,%r5), %zmm20, %zmm16
 vpunpcklbw %zmm30, %zmm29, %zmm20
 vpdpbusd -192(%r1), %zmm7, %zmm0
 vpunpckhbw %zmm30, %zmm29, %zmm29
 vpdpbusd -576(%r1,%r5), %zmm22, %zmm13
 vpunpcklwd %zmm20, %zmm21, %zmm18
 vpdpbusd -128(%r1), %zmm9, %zmm1
 vpunpckhwd %zmm20, %zmm21, %zmm20
 vpdpbusd -512(%r1,%r5), %zmm23, %zmm15
 vpunpcklwd %zmm29, %zmm27, %zmm22
 vpdpbusd -64(%r1), %zmm11, %zmm2
 vpunpckhwd %zmm29, %zmm27, %zmm23
 vpdpbusd (%r1), %zmm14, %zmm3
 vcvtdq2ps %zmm6, %zmm29
 vmovaps %zmm4, %zmm6
 vmovaps %zmm5, %zmm4
 vmovups [stack+0], %zmm5
 vmulps %zmm29, %zmm6, %zmm29
 vcvtps2dq %zmm29, %zmm29
 vcvtdq2ps %zmm8, %zmm30
 vmovups [stack+1], %zmm8
 vmulps %zmm30, %zmm4, %zmm30
 vcvtps2dq %zmm30, %zmm30
 vcvtdq2ps %zmm10, %zmm10
 vmulps %zmm10, %zmm5, %zmm10
 vcvtps2dq %zmm10, %zmm10
 vcvtdq2ps %zmm12, %zmm12
 vmulps %zmm12, %zmm8, %zmm12
 vcvtdq2ps %zmm0, %zmm0
 vmulps %zmm0, %zmm6, %zmm0
 vcvtdq2ps %zmm1, %zmm1
 vcvtps2dq %zmm12, %zmm12
 vmulps %zmm1, %zmm4, %zmm1
 vpdpbusd -1216(%r1,%r5), %zmm7, %zmm24
 vpdpbusd -1152(%r1,%r5), %zmm9, %zmm25
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps %zmm2, %zmm2
 vpdpbusd -1088(%r1,%r5), %zmm11, %zmm26
 vpdpbusd -1024(%r1,%r5), %zmm14, %zmm19
 vcvtps2dq %zmm1, %zmm1
 vmulps %zmm2, %zmm5, %zmm2
 vpdpbusd -960(%r1,%r5), %zmm18, %zmm24
 vpdpbusd -896(%r1,%r5), %zmm20, %zmm25
 vpackssdw %zmm30, %zmm29, %zmm29
 vcvtps2dq %zmm2, %zmm30
 vpdpbusd -832(%r1,%r5), %zmm22, %zmm26
 vpdpbusd -768(%r1,%r5), %zmm23, %zmm19
 vpackssdw %zmm12, %zmm10, %zmm2
 vcvtdq2ps %zmm3, %zmm3
 vpdpbusd -448(%r1,%r5), %zmm7, %zmm17
 vpdpbusd -384(%r1,%r5), %zmm9, %zmm16
 vpackssdw %zmm1, %zmm0, %zmm1
 vmulps %zmm3, %zmm8, %zmm3
 vpdpbusd -320(%r1,%r5), %zmm11, %zmm13
 vpdpbusd -256(%r1,%r5), %zmm14, %zmm15
 vpaddsw %zmm31, %zmm29, %zmm29
 vcvtps2dq %zmm3, %zmm3
 vpdpbusd -192(%r1,%r5), %zmm18, %zmm17
 vpdpbusd -128(%r1,%r5), %zmm20, %zmm16
 vpaddsw %zmm31, %zmm2, %zmm2
 vpackssdw %zmm3, %zmm30, %zmm30
 vpdpbusd -64(%r1,%r5), %zmm22, %zmm13
 vpdpbusd (%r1,%r5), %zmm23, %zmm15
 vpaddsw %zmm31, %zmm1, %zmm3
 vcvtdq2ps %zmm24, %zmm1
 vmulps %zmm1, %zmm6, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps %zmm25, %zmm0
 vmulps %zmm0, %zmm4, %zmm0
 vpaddsw %zmm31, %zmm30, %zmm30
 vcvtps2dq %zmm0, %zmm0
 vpackssdw %zmm0, %zmm1, %zmm1
 vpaddsw %zmm31, %zmm1, %zmm1
 vcvtdq2ps %zmm26, %zmm0
 vmulps %zmm0, %zmm5, %zmm0
 vpackuswb %zmm2, %zmm29, %zmm29
 vcvtps2dq %zmm0, %zmm2
 vcvtdq2ps %zmm19, %zmm0
 vmulps %zmm0, %zmm8, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vpackssdw %zmm0, %zmm2, %zmm2
 vpackuswb %zmm30, %zmm3, %zmm30
 vpaddsw %zmm31, %zmm2, %zmm3
 vcvtdq2ps %zmm17, %zmm2
 vmulps %zmm2, %zmm6, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vcvtdq2ps %zmm16, %zmm0
 vpackuswb %zmm3, %zmm1, %zmm3
 vmulps %zmm0, %zmm4, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vpackssdw %zmm1, %zmm2, %zmm2
 vpaddsw %zmm31, %zmm2, %zmm2
 vmovdqa64 %zmm29, -64(%r6,%r3)
 vcvtdq2ps %zmm13, %zmm29
 vmulps %zmm29, %zmm5, %zmm29
 vcvtps2dq %zmm29, %zmm29
 vcvtdq2ps %zmm15, %zmm1
 vmovdqa64 %zmm30, 704(%r6,%r3)
 vmulps %zmm1, %zmm8, %zmm30
 vcvtps2dq %zmm30, %zmm30
 vpackssdw %zmm30, %zmm29, %zmm29
 vpaddsw %zmm31, %zmm29, %zmm29
 vmovdqa64 %zmm3, (%r6,%r3)
 vpackuswb %zmm29, %zmm2, %zmm29
 vmovdqa64 %zmm29, 768(%r6,%r3)
 addq %r7, %r1
 addq %r8, %r0
 vmovdqa64 %zmm14, %zmm15
 subq $-128, %r3
 jne L0
