; x86.grouped version 2 on x86-avxvnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8
; tile_columns=2, tile_registers=4, outer=weights, border=skip, order=words
; all code: 533 lines, sha256 3ad9a72c0ee40398395ea090daf8f663c1beb684da59b7563a4dd8b9947b87f2
; inner loop: 222 instructions, 72 products, 64 loads, 2 stores; on the stack 52 loads, 0 stores
L0:
 vmovdqa -1984(%r0,%r1), %ymm0
 vmovdqa -1920(%r0,%r1), %ymm1
 vmovdqa -1856(%r0,%r1), %ymm2
 vpshufd $0, %ymm0, %ymm3
 vmovdqa %ymm4, %ymm5
 {vex} vpdpbusd %ymm6, %ymm3, %ymm5
 vpshufd $85, %ymm0, %ymm3
 vmovdqa %ymm7, %ymm8
 {vex} vpdpbusd %ymm9, %ymm3, %ymm8
 vpshufd $170, %ymm0, %ymm3
 vmovdqu [stack+0], %ymm9
 {vex} vpdpbusd %ymm10, %ymm3, %ymm9
 vpshufd $255, %ymm0, %ymm0
 vmovdqu [stack+1], %ymm10
 {vex} vpdpbusd %ymm11, %ymm0, %ymm10
 vpshufd $0, %ymm1, %ymm0
 vmovdqu [stack+2], %ymm4
 {vex} vpdpbusd %ymm4, %ymm0, %ymm5
 vmovdqu [stack+3], %ymm11
 {vex} vpdpbusd %ymm6, %ymm0, %ymm11
 vpshufd $85, %ymm1, %ymm3
 vmovdqu [stack+4], %ymm12
 {vex} vpdpbusd %ymm12, %ymm3, %ymm8
 vmovdqa %ymm7, %ymm0
 {vex} vpdpbusd [stack+5], %ymm3, %ymm0
 vpshufd $170, %ymm1, %ymm6
 vmovdqu [stack+6], %ymm13
 {vex} vpdpbusd %ymm13, %ymm6, %ymm9
 vmovdqu [stack+0], %ymm3
 {vex} vpdpbusd [stack+7], %ymm6, %ymm3
 vpshufd $255, %ymm1, %ymm6
 vmovdqu [stack+8], %ymm14
 {vex} vpdpbusd %ymm14, %ymm6, %ymm10
 vmovdqu [stack+1], %ymm1
 {vex} vpdpbusd [stack+9], %ymm6, %ymm1
 vpshufd $0, %ymm2, %ymm6
 vmovdqu [stack+10], %ymm15
 {vex} vpdpbusd %ymm15, %ymm6, %ymm5
 {vex} vpdpbusd %ymm4, %ymm6, %ymm11
 vpshufd $85, %ymm2, %ymm6
 vmovdqu [stack+11], %ymm7
 {vex} vpdpbusd %ymm7, %ymm6, %ymm8
 {vex} vpdpbusd %ymm12, %ymm6, %ymm0
 vpshufd $170, %ymm2, %ymm6
 vmovdqu [stack+12], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm9
 {vex} vpdpbusd %ymm13, %ymm6, %ymm3
 vmovdqa -1792(%r0,%r1), %ymm6
 vpshufd $255, %ymm2, %ymm13
 vmovdqu [stack+13], %ymm12
 {vex} vpdpbusd %ymm12, %ymm13, %ymm10
 {vex} vpdpbusd %ymm14, %ymm13, %ymm1
 vpshufd $0, %ymm6, %ymm13
 {vex} vpdpbusd %ymm15, %ymm13, %ymm11
 vpshufd $85, %ymm6, %ymm13
 {vex} vpdpbusd %ymm7, %ymm13, %ymm0
 vpshufd $170, %ymm6, %ymm13
 {vex} vpdpbusd %ymm4, %ymm13, %ymm3
 vpshufd $255, %ymm6, %ymm13
 {vex} vpdpbusd %ymm12, %ymm13, %ymm1
 vmovdqa -1088(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+14], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm5
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+15], %ymm2
 {vex} vpdpbusd %ymm2, %ymm6, %ymm8
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+16], %ymm7
 {vex} vpdpbusd %ymm7, %ymm6, %ymm9
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+17], %ymm15
 {vex} vpdpbusd %ymm15, %ymm13, %ymm10
 vmovdqa -1024(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+18], %ymm12
 {vex} vpdpbusd %ymm12, %ymm6, %ymm5
 {vex} vpdpbusd %ymm4, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+19], %ymm14
 {vex} vpdpbusd %ymm14, %ymm6, %ymm8
 {vex} vpdpbusd %ymm2, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+20], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm9
 {vex} vpdpbusd %ymm7, %ymm6, %ymm3
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+21], %ymm7
 {vex} vpdpbusd %ymm7, %ymm13, %ymm10
 {vex} vpdpbusd %ymm15, %ymm13, %ymm1
 vmovdqa -960(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+22], %ymm2
 {vex} vpdpbusd %ymm2, %ymm6, %ymm5
 {vex} vpdpbusd %ymm12, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+23], %ymm12
 {vex} vpdpbusd %ymm12, %ymm6, %ymm8
 {vex} vpdpbusd %ymm14, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+24], %ymm15
 {vex} vpdpbusd %ymm15, %ymm6, %ymm9
 {vex} vpdpbusd %ymm4, %ymm6, %ymm3
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+25], %ymm4
 {vex} vpdpbusd %ymm4, %ymm13, %ymm10
 {vex} vpdpbusd %ymm7, %ymm13, %ymm1
 vmovdqa -896(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 {vex} vpdpbusd %ymm2, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 {vex} vpdpbusd %ymm12, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 {vex} vpdpbusd %ymm15, %ymm6, %ymm3
 vpshufd $255, %ymm13, %ymm13
 {vex} vpdpbusd %ymm4, %ymm13, %ymm1
 vmovdqa -192(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+26], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm5
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+27], %ymm7
 {vex} vpdpbusd %ymm7, %ymm6, %ymm8
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+28], %ymm12
 {vex} vpdpbusd %ymm12, %ymm6, %ymm9
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+29], %ymm2
 {vex} vpdpbusd %ymm2, %ymm13, %ymm10
 vmovdqa -128(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+30], %ymm15
 {vex} vpdpbusd %ymm15, %ymm6, %ymm5
 {vex} vpdpbusd %ymm4, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+31], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm8
 {vex} vpdpbusd %ymm7, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+32], %ymm7
 {vex} vpdpbusd %ymm7, %ymm6, %ymm9
 {vex} vpdpbusd %ymm12, %ymm6, %ymm3
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+33], %ymm12
 {vex} vpdpbusd %ymm12, %ymm13, %ymm10
 {vex} vpdpbusd %ymm2, %ymm13, %ymm1
 vmovdqa -64(%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 vmovdqu [stack+34], %ymm2
 {vex} vpdpbusd %ymm2, %ymm6, %ymm5
 {vex} vpdpbusd %ymm15, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 vmovdqu [stack+35], %ymm15
 {vex} vpdpbusd %ymm15, %ymm6, %ymm8
 {vex} vpdpbusd %ymm4, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 vmovdqu [stack+36], %ymm4
 {vex} vpdpbusd %ymm4, %ymm6, %ymm9
 {vex} vpdpbusd %ymm7, %ymm6, %ymm3
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+37], %ymm14
 {vex} vpdpbusd %ymm14, %ymm13, %ymm10
 {vex} vpdpbusd %ymm12, %ymm13, %ymm1
 vmovdqa (%r0,%r1), %ymm13
 vpshufd $0, %ymm13, %ymm6
 {vex} vpdpbusd %ymm2, %ymm6, %ymm11
 vpshufd $85, %ymm13, %ymm6
 {vex} vpdpbusd %ymm15, %ymm6, %ymm0
 vpshufd $170, %ymm13, %ymm6
 {vex} vpdpbusd %ymm4, %ymm6, %ymm3
 vmovups [stack+38], %ymm6
 vmovups [stack+39], %ymm2
 vmovups [stack+40], %ymm7
 vpshufd $255, %ymm13, %ymm13
 {vex} vpdpbusd %ymm14, %ymm13, %ymm1
 vmovups [stack+41], %ymm14
 vmovups [stack+42], %ymm13
 vcvtdq2ps %ymm5, %ymm5
 vmulps %ymm5, %ymm13, %ymm5
 vcvtps2dq %ymm5, %ymm5
 vcvtdq2ps %ymm8, %ymm8
 vmulps %ymm8, %ymm14, %ymm8
 vcvtps2dq %ymm8, %ymm8
 vpackssdw %ymm8, %ymm5, %ymm5
 vmovups [stack+43], %ymm8
 vcvtdq2ps %ymm9, %ymm9
 vmulps %ymm9, %ymm8, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vcvtdq2ps %ymm10, %ymm10
 vmulps %ymm10, %ymm2, %ymm10
 vcvtps2dq %ymm10, %ymm10
 vpackssdw %ymm10, %ymm9, %ymm9
 vpaddsw [stack+44], %ymm5, %ymm10
 vmovdqu [stack+44], %ymm5
 vpaddsw %ymm5, %ymm9, %ymm9
 vpackuswb %ymm9, %ymm10, %ymm9
 vmovups [stack+7], %ymm10
 vmovdqa %ymm9, -64(%r2,%r1)
 vcvtdq2ps %ymm11, %ymm9
 vmovups [stack+9], %ymm11
 vmovups [stack+3], %ymm4
 vmulps %ymm9, %ymm13, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm14, %ymm0
 vcvtps2dq %ymm0, %ymm0
 vpackssdw %ymm0, %ymm9, %ymm0
 vcvtdq2ps %ymm3, %ymm3
 vmulps %ymm3, %ymm8, %ymm3
 vcvtps2dq %ymm3, %ymm3
 vcvtdq2ps %ymm1, %ymm9
 vmulps %ymm9, %ymm2, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vpackssdw %ymm9, %ymm3, %ymm3
 vmovups [stack+5], %ymm9
 vpaddsw %ymm5, %ymm0, %ymm0
 vpaddsw %ymm5, %ymm3, %ymm3
 vpackuswb %ymm3, %ymm0, %ymm0
 vmovdqa %ymm0, (%r2,%r1)
 subq $-128, %r1
 cmpq $768, %r1
 jne L0
