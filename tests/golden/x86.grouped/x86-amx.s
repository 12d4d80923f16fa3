; x86.grouped version 3 on x86-amx
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8
; tile_columns=4, tile_registers=4, outer=weights, border=skip, order=words, fetch=demand
; all code: 658 lines, sha256 928bb94c06844b3bc1bec21904c5cf462ea312968052baaa053b963a6fc15270
; inner loop: 366 instructions, 144 products, 100 loads, 4 stores; on the stack 82 loads, 0 stores
L0:
 vmovdqa64 -2112(%r0,%r1), %zmm0
 vmovdqa64 -2048(%r0,%r1), %zmm1
 vmovdqa64 -1984(%r0,%r1), %zmm2
 vmovdqa64 -1920(%r0,%r1), %zmm3
 vpshufd $0, %zmm0, %zmm4
 vmovdqa64 %zmm5, %zmm6
 vpdpbusd %zmm7, %zmm4, %zmm6
 vpshufd $85, %zmm0, %zmm4
 vmovdqa64 %zmm8, %zmm9
 vpdpbusd %zmm10, %zmm4, %zmm9
 vpshufd $170, %zmm0, %zmm4
 vmovdqa64 %zmm11, %zmm12
 vpdpbusd %zmm13, %zmm4, %zmm12
 vpshufd $255, %zmm0, %zmm0
 vmovdqu64 [stack+0], %zmm14
 vpdpbusd %zmm15, %zmm0, %zmm14
 vpshufd $0, %zmm1, %zmm4
 vpdpbusd %zmm16, %zmm4, %zmm6
 vmovdqa64 %zmm5, %zmm0
 vpdpbusd %zmm7, %zmm4, %zmm0
 vpshufd $85, %zmm1, %zmm7
 vpdpbusd %zmm17, %zmm7, %zmm9
 vmovdqa64 %zmm8, %zmm4
 vpdpbusd [stack+1], %zmm7, %zmm4
 vpshufd $170, %zmm1, %zmm18
 vpdpbusd %zmm19, %zmm18, %zmm12
 vmovdqa64 %zmm11, %zmm7
 vpdpbusd [stack+2], %zmm18, %zmm7
 vpshufd $255, %zmm1, %zmm1
 vpdpbusd %zmm20, %zmm1, %zmm14
 vmovdqu64 [stack+0], %zmm18
 vpdpbusd [stack+3], %zmm1, %zmm18
 vpshufd $0, %zmm2, %zmm21
 vpdpbusd %zmm22, %zmm21, %zmm6
 vpdpbusd [stack+4], %zmm21, %zmm0
 vmovdqa64 %zmm5, %zmm1
 vpdpbusd [stack+5], %zmm21, %zmm1
 vpshufd $85, %zmm2, %zmm23
 vpdpbusd %zmm24, %zmm23, %zmm9
 vpdpbusd [stack+6], %zmm23, %zmm4
 vmovdqa64 %zmm8, %zmm21
 vpdpbusd [stack+1], %zmm23, %zmm21
 vpshufd $170, %zmm2, %zmm25
 vpdpbusd %zmm26, %zmm25, %zmm12
 vpdpbusd [stack+7], %zmm25, %zmm7
 vmovdqa64 %zmm11, %zmm23
 vpdpbusd [stack+2], %zmm25, %zmm23
 vpshufd $255, %zmm2, %zmm2
 vmovdqu64 [stack+8], %zmm27
 vpdpbusd %zmm27, %zmm2, %zmm14
 vpdpbusd %zmm20, %zmm2, %zmm18
 vmovdqu64 [stack+0], %zmm25
 vpdpbusd [stack+3], %zmm2, %zmm25
 vpshufd $0, %zmm3, %zmm26
 vpdpbusd %zmm22, %zmm26, %zmm0
 vpdpbusd [stack+4], %zmm26, %zmm1
 vmovdqa64 %zmm5, %zmm2
 vpdpbusd [stack+5], %zmm26, %zmm2
 vpshufd $85, %zmm3, %zmm5
 vpdpbusd [stack+9], %zmm5, %zmm4
 vpdpbusd [stack+6], %zmm5, %zmm21
 vmovdqa64 %zmm8, %zmm26
 vpdpbusd [stack+1], %zmm5, %zmm26
 vpshufd $170, %zmm3, %zmm8
 vpdpbusd [stack+10], %zmm8, %zmm7
 vpdpbusd [stack+7], %zmm8, %zmm23
 vmovdqa64 %zmm11, %zmm5
 vpdpbusd [stack+2], %zmm8, %zmm5
 vpshufd $255, %zmm3, %zmm8
 vpdpbusd %zmm27, %zmm8, %zmm18
 vpdpbusd %zmm20, %zmm8, %zmm25
 vmovdqu64 [stack+0], %zmm3
 vpdpbusd [stack+3], %zmm8, %zmm3
 vmovdqa64 -1856(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm22, %zmm11, %zmm1
 vpdpbusd [stack+4], %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd [stack+9], %zmm11, %zmm21
 vpdpbusd [stack+6], %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd [stack+10], %zmm11, %zmm23
 vpdpbusd [stack+7], %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd %zmm27, %zmm8, %zmm25
 vpdpbusd %zmm20, %zmm8, %zmm3
 vmovdqa64 -1792(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm22, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd [stack+9], %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd [stack+10], %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd %zmm27, %zmm8, %zmm3
 vmovdqa64 -1216(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+11], %zmm27
 vpdpbusd %zmm27, %zmm11, %zmm6
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+12], %zmm15
 vpdpbusd %zmm15, %zmm11, %zmm9
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+13], %zmm28
 vpdpbusd %zmm28, %zmm11, %zmm12
 vpshufd $255, %zmm8, %zmm8
 vmovdqu64 [stack+14], %zmm10
 vpdpbusd %zmm10, %zmm8, %zmm14
 vmovdqa64 -1152(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+15], %zmm29
 vpdpbusd %zmm29, %zmm11, %zmm6
 vpdpbusd %zmm27, %zmm11, %zmm0
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+16], %zmm16
 vpdpbusd %zmm16, %zmm11, %zmm9
 vpdpbusd %zmm15, %zmm11, %zmm4
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+17], %zmm17
 vpdpbusd %zmm17, %zmm11, %zmm12
 vpdpbusd %zmm28, %zmm11, %zmm7
 vpshufd $255, %zmm8, %zmm8
 vmovdqu64 [stack+18], %zmm19
 vpdpbusd %zmm19, %zmm8, %zmm14
 vpdpbusd %zmm10, %zmm8, %zmm18
 vmovdqa64 -1088(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+19], %zmm30
 vpdpbusd %zmm30, %zmm11, %zmm6
 vpdpbusd %zmm29, %zmm11, %zmm0
 vpdpbusd %zmm27, %zmm11, %zmm1
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+20], %zmm31
 vpdpbusd %zmm31, %zmm11, %zmm9
 vpdpbusd %zmm16, %zmm11, %zmm4
 vpdpbusd %zmm15, %zmm11, %zmm21
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+21], %zmm13
 vpdpbusd %zmm13, %zmm11, %zmm12
 vpdpbusd %zmm17, %zmm11, %zmm7
 vpdpbusd %zmm28, %zmm11, %zmm23
 vpshufd $255, %zmm8, %zmm8
 vmovdqu64 [stack+22], %zmm24
 vpdpbusd %zmm24, %zmm8, %zmm14
 vpdpbusd %zmm19, %zmm8, %zmm18
 vpdpbusd %zmm10, %zmm8, %zmm25
 vmovdqa64 -1024(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm30, %zmm11, %zmm0
 vpdpbusd %zmm29, %zmm11, %zmm1
 vpdpbusd %zmm27, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm31, %zmm11, %zmm4
 vpdpbusd %zmm16, %zmm11, %zmm21
 vpdpbusd %zmm15, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm13, %zmm11, %zmm7
 vpdpbusd %zmm17, %zmm11, %zmm23
 vpdpbusd %zmm28, %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd %zmm24, %zmm8, %zmm18
 vpdpbusd %zmm19, %zmm8, %zmm25
 vpdpbusd %zmm10, %zmm8, %zmm3
 vmovdqa64 -960(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm30, %zmm11, %zmm1
 vpdpbusd %zmm29, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm31, %zmm11, %zmm21
 vpdpbusd %zmm16, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm13, %zmm11, %zmm23
 vpdpbusd %zmm17, %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd %zmm24, %zmm8, %zmm25
 vpdpbusd %zmm19, %zmm8, %zmm3
 vmovdqa64 -896(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm30, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm31, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm13, %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd %zmm24, %zmm8, %zmm3
 vmovdqa64 -320(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+23], %zmm27
 vpdpbusd %zmm27, %zmm11, %zmm6
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+24], %zmm24
 vpdpbusd %zmm24, %zmm11, %zmm9
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+25], %zmm13
 vpdpbusd %zmm13, %zmm11, %zmm12
 vpshufd $255, %zmm8, %zmm8
 vmovdqu64 [stack+26], %zmm15
 vpdpbusd %zmm15, %zmm8, %zmm14
 vmovdqa64 -256(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+27], %zmm28
 vpdpbusd %zmm28, %zmm11, %zmm6
 vpdpbusd %zmm27, %zmm11, %zmm0
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+28], %zmm31
 vpdpbusd %zmm31, %zmm11, %zmm9
 vpdpbusd %zmm24, %zmm11, %zmm4
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+29], %zmm30
 vpdpbusd %zmm30, %zmm11, %zmm12
 vpdpbusd %zmm13, %zmm11, %zmm7
 vpshufd $255, %zmm8, %zmm8
 vmovdqu64 [stack+30], %zmm10
 vpdpbusd %zmm10, %zmm8, %zmm14
 vpdpbusd %zmm15, %zmm8, %zmm18
 vmovdqa64 -192(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vmovdqu64 [stack+31], %zmm29
 vpdpbusd %zmm29, %zmm11, %zmm6
 vpdpbusd %zmm28, %zmm11, %zmm0
 vpdpbusd %zmm27, %zmm11, %zmm1
 vpshufd $85, %zmm8, %zmm11
 vmovdqu64 [stack+32], %zmm16
 vpdpbusd %zmm16, %zmm11, %zmm9
 vpdpbusd %zmm31, %zmm11, %zmm4
 vpdpbusd %zmm24, %zmm11, %zmm21
 vpshufd $170, %zmm8, %zmm11
 vmovdqu64 [stack+33], %zmm17
 vpdpbusd %zmm17, %zmm11, %zmm12
 vpdpbusd %zmm30, %zmm11, %zmm7
 vpdpbusd %zmm13, %zmm11, %zmm23
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd [stack+34], %zmm8, %zmm14
 vpdpbusd %zmm10, %zmm8, %zmm18
 vpdpbusd %zmm15, %zmm8, %zmm25
 vmovdqa64 -128(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm29, %zmm11, %zmm0
 vpdpbusd %zmm28, %zmm11, %zmm1
 vpdpbusd %zmm27, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm16, %zmm11, %zmm4
 vpdpbusd %zmm31, %zmm11, %zmm21
 vpdpbusd %zmm24, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm17, %zmm11, %zmm7
 vpdpbusd %zmm30, %zmm11, %zmm23
 vpdpbusd %zmm13, %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd [stack+34], %zmm8, %zmm18
 vpdpbusd %zmm10, %zmm8, %zmm25
 vpdpbusd %zmm15, %zmm8, %zmm3
 vmovdqa64 -64(%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm29, %zmm11, %zmm1
 vpdpbusd %zmm28, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm16, %zmm11, %zmm21
 vpdpbusd %zmm31, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm17, %zmm11, %zmm23
 vpdpbusd %zmm30, %zmm11, %zmm5
 vpshufd $255, %zmm8, %zmm8
 vpdpbusd [stack+34], %zmm8, %zmm25
 vpdpbusd %zmm10, %zmm8, %zmm3
 vmovdqa64 (%r0,%r1), %zmm8
 vpshufd $0, %zmm8, %zmm11
 vpdpbusd %zmm29, %zmm11, %zmm2
 vpshufd $85, %zmm8, %zmm11
 vpdpbusd %zmm16, %zmm11, %zmm26
 vpshufd $170, %zmm8, %zmm11
 vpdpbusd %zmm17, %zmm11, %zmm5
 vmovdqu64 [stack+35], %zmm11
 vcvtdq2ps %zmm6, %zmm6
 vmulps [stack+36], %zmm6, %zmm6
 vcvtps2dq %zmm6, %zmm6
 vcvtdq2ps %zmm9, %zmm9
 vmulps [stack+37], %zmm9, %zmm9
 vcvtps2dq %zmm9, %zmm9
 vpackssdw %zmm9, %zmm6, %zmm6
 vmovups [stack+38], %zmm9
 vcvtdq2ps %zmm12, %zmm12
 vmulps %zmm12, %zmm9, %zmm12
 vcvtps2dq %zmm12, %zmm12
 vcvtdq2ps %zmm14, %zmm14
 vmulps [stack+39], %zmm14, %zmm14
 vcvtps2dq %zmm14, %zmm14
 vpackssdw %zmm14, %zmm12, %zmm12
 vpaddsw [stack+40], %zmm6, %zmm14
 vmovdqu64 [stack+40], %zmm6
 vpaddsw %zmm6, %zmm12, %zmm12
 vpackuswb %zmm12, %zmm14, %zmm12
 vmovdqa64 %zmm12, -192(%r2,%r1)
 vpshufd $255, %zmm8, %zmm12
 vmovdqu64 [stack+41], %zmm8
 vpdpbusd [stack+34], %zmm12, %zmm3
 vcvtdq2ps %zmm0, %zmm0
 vmulps [stack+36], %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps %zmm4, %zmm4
 vmulps [stack+37], %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vcvtdq2ps %zmm7, %zmm4
 vmulps %zmm4, %zmm9, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vcvtdq2ps %zmm18, %zmm7
 vmovdqu64 [stack+6], %zmm17
 vmulps [stack+39], %zmm7, %zmm7
 vcvtps2dq %zmm7, %zmm7
 vpackssdw %zmm7, %zmm4, %zmm4
 vpaddsw %zmm6, %zmm0, %zmm0
 vpaddsw %zmm6, %zmm4, %zmm4
 vpackuswb %zmm4, %zmm0, %zmm0
 vmovdqa64 %zmm0, -128(%r2,%r1)
 vcvtdq2ps %zmm1, %zmm0
 vmovups [stack+39], %zmm30
 vmovups [stack+37], %zmm27
 vmovups [stack+36], %zmm31
 vmulps %zmm0, %zmm31, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps %zmm21, %zmm4
 vmovdqu64 [stack+7], %zmm19
 vmulps %zmm4, %zmm27, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vcvtdq2ps %zmm23, %zmm4
 vmulps %zmm4, %zmm9, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vcvtdq2ps %zmm25, %zmm7
 vmovdqu64 [stack+9], %zmm24
 vmulps %zmm7, %zmm30, %zmm7
 vcvtps2dq %zmm7, %zmm7
 vpackssdw %zmm7, %zmm4, %zmm4
 vpaddsw %zmm6, %zmm0, %zmm0
 vpaddsw %zmm6, %zmm4, %zmm4
 vpackuswb %zmm4, %zmm0, %zmm0
 vmovdqa64 %zmm0, -64(%r2,%r1)
 vcvtdq2ps %zmm2, %zmm0
 vmulps %zmm0, %zmm31, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps %zmm26, %zmm4
 vmovdqu64 [stack+10], %zmm26
 vmulps %zmm4, %zmm27, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vcvtdq2ps %zmm5, %zmm4
 vmovdqu64 [stack+42], %zmm5
 vmulps %zmm4, %zmm9, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vcvtdq2ps %zmm3, %zmm7
 vmulps %zmm7, %zmm30, %zmm7
 vcvtps2dq %zmm7, %zmm7
 vpackssdw %zmm7, %zmm4, %zmm4
 vmovdqu64 [stack+4], %zmm16
 vmovdqu64 [stack+3], %zmm15
 vmovdqu64 [stack+2], %zmm13
 vmovdqu64 [stack+1], %zmm10
 vmovdqu64 [stack+5], %zmm7
 vpaddsw %zmm6, %zmm0, %zmm0
 vpaddsw %zmm6, %zmm4, %zmm4
 vpackuswb %zmm4, %zmm0, %zmm0
 vmovdqa64 %zmm0, (%r2,%r1)
 addq $256, %r1
 cmpq $768, %r1
 jne L0
