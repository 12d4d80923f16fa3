; x86.grouped version 3 on x86-avxvnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8
; tile_columns=2, tile_registers=4, outer=weights, border=skip, order=words, fetch=next
; all code: 539 lines, sha256 b38f5b98eab63e052842ae242dd173fd8cc0ec2268647c9756dcaa5d50ec5a4b
; inner loop: 225 instructions, 72 products, 63 loads, 2 stores; on the stack 51 loads, 0 stores
L0:
 vmovdqa -1984(%r0,%r1,2), %ymm0
 vmovdqa -1920(%r0,%r1,2), %ymm1
 vmovdqa -1856(%r0,%r1,2), %ymm2
 vpshufd $0, %ymm0, %ymm3
 vmovdqa %ymm4, %ymm5
 {vex} vpdpbusd %ymm6, %ymm3, %ymm5
 vpshufd $85, %ymm0, %ymm3
 vmovdqa %ymm7, %ymm4
 {vex} vpdpbusd %ymm8, %ymm3, %ymm4
 vpshufd $170, %ymm0, %ymm3
 vmovdqu [stack+0], %ymm9
 {vex} vpdpbusd %ymm10, %ymm3, %ymm9
 vpshufd $255, %ymm0, %ymm0
 vmovdqa %ymm11, %ymm3
 vmovdqu [stack+1], %ymm11
 {vex} vpdpbusd %ymm11, %ymm0, %ymm3
 vpshufd $0, %ymm1, %ymm0
 vmovdqu [stack+2], %ymm12
 {vex} vpdpbusd %ymm12, %ymm0, %ymm5
 vmovdqu [stack+3], %ymm10
 {vex} vpdpbusd %ymm6, %ymm0, %ymm10
 vpshufd $85, %ymm1, %ymm6
 vmovdqu [stack+4], %ymm13
 {vex} vpdpbusd %ymm13, %ymm6, %ymm4
 vmovdqa %ymm7, %ymm0
 {vex} vpdpbusd [stack+5], %ymm6, %ymm0
 vpshufd $170, %ymm1, %ymm14
 vmovdqu [stack+6], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm9
 vmovdqu [stack+0], %ymm6
 {vex} vpdpbusd [stack+7], %ymm14, %ymm6
 vpshufd $255, %ymm1, %ymm14
 vmovdqu [stack+8], %ymm15
 {vex} vpdpbusd %ymm15, %ymm14, %ymm3
 vmovdqu [stack+9], %ymm1
 {vex} vpdpbusd %ymm11, %ymm14, %ymm1
 vpshufd $0, %ymm2, %ymm14
 vmovdqu [stack+10], %ymm7
 {vex} vpdpbusd %ymm7, %ymm14, %ymm5
 {vex} vpdpbusd %ymm12, %ymm14, %ymm10
 vpshufd $85, %ymm2, %ymm14
 vmovdqu [stack+11], %ymm11
 {vex} vpdpbusd %ymm11, %ymm14, %ymm4
 {vex} vpdpbusd %ymm13, %ymm14, %ymm0
 vpshufd $170, %ymm2, %ymm14
 vmovdqu [stack+12], %ymm12
 {vex} vpdpbusd %ymm12, %ymm14, %ymm9
 {vex} vpdpbusd %ymm8, %ymm14, %ymm6
 vmovdqa -1792(%r0,%r1,2), %ymm14
 vpshufd $255, %ymm2, %ymm13
 vmovdqu [stack+13], %ymm2
 {vex} vpdpbusd %ymm2, %ymm13, %ymm3
 {vex} vpdpbusd %ymm15, %ymm13, %ymm1
 vpshufd $0, %ymm14, %ymm13
 {vex} vpdpbusd %ymm7, %ymm13, %ymm10
 vpshufd $85, %ymm14, %ymm13
 {vex} vpdpbusd %ymm11, %ymm13, %ymm0
 vpshufd $170, %ymm14, %ymm13
 {vex} vpdpbusd %ymm12, %ymm13, %ymm6
 vpshufd $255, %ymm14, %ymm13
 {vex} vpdpbusd %ymm2, %ymm13, %ymm1
 vmovdqa -1088(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+14], %ymm12
 {vex} vpdpbusd %ymm12, %ymm14, %ymm5
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+15], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm4
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+16], %ymm11
 {vex} vpdpbusd %ymm11, %ymm14, %ymm9
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+17], %ymm2
 {vex} vpdpbusd %ymm2, %ymm13, %ymm3
 vmovdqa -1024(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+18], %ymm7
 {vex} vpdpbusd %ymm7, %ymm14, %ymm5
 {vex} vpdpbusd %ymm12, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+19], %ymm12
 {vex} vpdpbusd %ymm12, %ymm14, %ymm4
 {vex} vpdpbusd %ymm8, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+20], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm9
 {vex} vpdpbusd %ymm11, %ymm14, %ymm6
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+21], %ymm11
 {vex} vpdpbusd %ymm11, %ymm13, %ymm3
 {vex} vpdpbusd %ymm2, %ymm13, %ymm1
 vmovdqa -960(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+22], %ymm2
 {vex} vpdpbusd %ymm2, %ymm14, %ymm5
 {vex} vpdpbusd %ymm7, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+23], %ymm7
 {vex} vpdpbusd %ymm7, %ymm14, %ymm4
 {vex} vpdpbusd %ymm12, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+24], %ymm12
 {vex} vpdpbusd %ymm12, %ymm14, %ymm9
 {vex} vpdpbusd %ymm8, %ymm14, %ymm6
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+25], %ymm8
 {vex} vpdpbusd %ymm8, %ymm13, %ymm3
 {vex} vpdpbusd %ymm11, %ymm13, %ymm1
 vmovdqa -896(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 {vex} vpdpbusd %ymm2, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 {vex} vpdpbusd %ymm7, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 {vex} vpdpbusd %ymm12, %ymm14, %ymm6
 vpshufd $255, %ymm13, %ymm13
 {vex} vpdpbusd %ymm8, %ymm13, %ymm1
 vmovdqa -192(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+26], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm5
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+27], %ymm2
 {vex} vpdpbusd %ymm2, %ymm14, %ymm4
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+28], %ymm12
 {vex} vpdpbusd %ymm12, %ymm14, %ymm9
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+29], %ymm11
 {vex} vpdpbusd %ymm11, %ymm13, %ymm3
 vmovdqa -128(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+30], %ymm7
 {vex} vpdpbusd %ymm7, %ymm14, %ymm5
 {vex} vpdpbusd %ymm8, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+31], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm4
 {vex} vpdpbusd %ymm2, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+32], %ymm2
 {vex} vpdpbusd %ymm2, %ymm14, %ymm9
 {vex} vpdpbusd %ymm12, %ymm14, %ymm6
 vpshufd $255, %ymm13, %ymm13
 vmovdqu [stack+33], %ymm12
 {vex} vpdpbusd %ymm12, %ymm13, %ymm3
 {vex} vpdpbusd %ymm11, %ymm13, %ymm1
 vmovdqa -64(%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 vmovdqu [stack+34], %ymm11
 {vex} vpdpbusd %ymm11, %ymm14, %ymm5
 {vex} vpdpbusd %ymm7, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 vmovdqu [stack+35], %ymm7
 {vex} vpdpbusd %ymm7, %ymm14, %ymm4
 {vex} vpdpbusd %ymm8, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 vmovdqu [stack+36], %ymm8
 {vex} vpdpbusd %ymm8, %ymm14, %ymm9
 {vex} vpdpbusd %ymm2, %ymm14, %ymm6
 vpshufd $255, %ymm13, %ymm13
 {vex} vpdpbusd [stack+37], %ymm13, %ymm3
 {vex} vpdpbusd %ymm12, %ymm13, %ymm1
 vmovdqa (%r0,%r1,2), %ymm13
 vpshufd $0, %ymm13, %ymm14
 {vex} vpdpbusd %ymm11, %ymm14, %ymm10
 vpshufd $85, %ymm13, %ymm14
 {vex} vpdpbusd %ymm7, %ymm14, %ymm0
 vpshufd $170, %ymm13, %ymm14
 {vex} vpdpbusd %ymm8, %ymm14, %ymm6
 vmovups [stack+38], %ymm7
 vmovups [stack+39], %ymm14
 vmovups [stack+40], %ymm15
 vmovups [stack+41], %ymm12
 vcvtdq2ps %ymm5, %ymm5
 vmulps %ymm5, %ymm12, %ymm5
 vcvtps2dq %ymm5, %ymm5
 vcvtdq2ps %ymm4, %ymm4
 vmulps %ymm4, %ymm15, %ymm4
 vcvtps2dq %ymm4, %ymm4
 vpackssdw %ymm4, %ymm5, %ymm4
 vmovups [stack+42], %ymm5
 vcvtdq2ps %ymm9, %ymm9
 vmulps %ymm9, %ymm5, %ymm9
 vcvtps2dq %ymm9, %ymm9
 vcvtdq2ps %ymm3, %ymm3
 vmulps %ymm3, %ymm14, %ymm3
 vcvtps2dq %ymm3, %ymm3
 vpackssdw %ymm3, %ymm9, %ymm3
 vmovdqu [stack+43], %ymm9
 vpaddsw %ymm9, %ymm4, %ymm4
 vpaddsw %ymm9, %ymm3, %ymm3
 vpackuswb %ymm3, %ymm4, %ymm3
 vmovdqa %ymm3, -64(%r2,%r1,2)
 vpshufd $255, %ymm13, %ymm3
 vmovdqu [stack+37], %ymm13
 {vex} vpdpbusd %ymm13, %ymm3, %ymm1
 vcvtdq2ps %ymm10, %ymm3
 vmovups [stack+7], %ymm10
 vmovups [stack+5], %ymm8
 vmovups [stack+3], %ymm4
 vmulps %ymm3, %ymm12, %ymm3
 vcvtps2dq %ymm3, %ymm3
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm15, %ymm0
 vcvtps2dq %ymm0, %ymm0
 vpackssdw %ymm0, %ymm3, %ymm0
 vcvtdq2ps %ymm6, %ymm3
 vmovups [stack+44], %ymm6
 vmovups [stack+9], %ymm11
 vmulps %ymm3, %ymm5, %ymm3
 vcvtps2dq %ymm3, %ymm3
 vcvtdq2ps %ymm1, %ymm1
 vmulps %ymm1, %ymm14, %ymm1
 vcvtps2dq %ymm1, %ymm1
 vpackssdw %ymm1, %ymm3, %ymm1
 vpaddsw %ymm9, %ymm0, %ymm0
 vpaddsw %ymm9, %ymm1, %ymm1
 vpackuswb %ymm1, %ymm0, %ymm0
 vmovdqa %ymm0, (%r2,%r1,2)
 prefetcht0 (%r3,%r4)
 addq $64, %r4
 addq $64, %r1
 cmpq $384, %r1
 jne L0
