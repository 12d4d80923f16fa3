; x86.conv version 3 on x86-avx2
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=2, tile_registers=4, outer=weights, border=skip, unroll=1, store=beside, fetch=next,
; last_tile=overlapping
; all code: 1797 lines, sha256 9e9add75d059b789b947e16729b6afaf24bf13d7afbc947c1abc0048fe3bb567
; inner loop: 178 instructions, 48 products, 50 loads, 4 stores; on the stack 20 loads, 3 stores
L0:
 leaq (,%r0,2), %r1
 addq %r0, %r1
 vpbroadcastd -832(%r2,%r1,4), %ymm0
 vpand [stack+0], %ymm0, %ymm1
 vpsrlw $8, %ymm0, %ymm2
 vpbroadcastd -768(%r2,%r1,4), %ymm0
 vpand [stack+0], %ymm0, %ymm3
 vpsrlw $8, %ymm0, %ymm4
 vpbroadcastd -828(%r2,%r1,4), %ymm5
 movq %r1, %r3
 shlq $8, %r3
 vmovdqa (%r4,%r3), %ymm0
 vmovdqa 32(%r4,%r3), %ymm6
 vpmaddwd %ymm6, %ymm2, %ymm7
 vpaddd %ymm7, %ymm8, %ymm7
 vpmaddwd %ymm0, %ymm1, %ymm8
 vpaddd %ymm7, %ymm8, %ymm7
 vmovdqa 64(%r4,%r3), %ymm8
 vpmaddwd %ymm6, %ymm4, %ymm6
 vpaddd %ymm6, %ymm9, %ymm6
 vmovdqa 96(%r4,%r3), %ymm9
 vpmaddwd %ymm0, %ymm3, %ymm0
 vpaddd %ymm0, %ymm6, %ymm6
 vpmaddwd %ymm2, %ymm9, %ymm0
 vpaddd %ymm0, %ymm10, %ymm0
 vpmaddwd %ymm1, %ymm8, %ymm10
 vpaddd %ymm0, %ymm10, %ymm0
 vmovdqa %ymm0, [stack+1]
 vpmaddwd %ymm8, %ymm3, %ymm10
 vpmaddwd %ymm4, %ymm9, %ymm9
 vpaddd %ymm9, %ymm11, %ymm9
 vpaddd %ymm10, %ymm9, %ymm11
 vmovdqa 128(%r4,%r3), %ymm10
 vmovdqa 160(%r4,%r3), %ymm9
 vpmaddwd %ymm2, %ymm9, %ymm8
 vpaddd %ymm8, %ymm12, %ymm12
 vpmaddwd %ymm1, %ymm10, %ymm8
 vpaddd %ymm8, %ymm12, %ymm12
 vpbroadcastd -764(%r2,%r1,4), %ymm0
 vpmaddwd %ymm10, %ymm3, %ymm10
 vpmaddwd %ymm4, %ymm9, %ymm9
 vpaddd %ymm9, %ymm13, %ymm9
 vpaddd %ymm10, %ymm9, %ymm10
 vmovdqa 192(%r4,%r3), %ymm9
 vmovdqa 224(%r4,%r3), %ymm13
 vpmaddwd %ymm1, %ymm9, %ymm1
 vpmaddwd %ymm2, %ymm13, %ymm2
 vpaddd %ymm2, %ymm14, %ymm2
 vpaddd %ymm1, %ymm2, %ymm1
 vpmaddwd %ymm9, %ymm3, %ymm2
 vpmaddwd %ymm4, %ymm13, %ymm4
 vpaddd %ymm4, %ymm15, %ymm15
 vpaddd %ymm2, %ymm15, %ymm15
 vmovdqa %ymm15, [stack+2]
 vpand [stack+0], %ymm5, %ymm14
 vpsrlw $8, %ymm5, %ymm8
 vpand [stack+0], %ymm0, %ymm9
 vpsrlw $8, %ymm0, %ymm13
 vmovdqa 256(%r4,%r3), %ymm0
 vmovdqa 288(%r4,%r3), %ymm5
 vpmaddwd %ymm0, %ymm14, %ymm4
 vpmaddwd %ymm5, %ymm8, %ymm2
 vpaddd %ymm2, %ymm4, %ymm4
 vpaddd %ymm4, %ymm7, %ymm4
 vpmaddwd %ymm0, %ymm9, %ymm0
 vpmaddwd %ymm5, %ymm13, %ymm5
 vpaddd %ymm5, %ymm0, %ymm0
 vpaddd %ymm0, %ymm6, %ymm2
 vmovdqa 320(%r4,%r3), %ymm0
 vmovdqa 352(%r4,%r3), %ymm6
 vpmaddwd %ymm0, %ymm14, %ymm5
 vpmaddwd %ymm6, %ymm8, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vpaddd [stack+1], %ymm5, %ymm3
 vpmaddwd %ymm0, %ymm9, %ymm0
 vpmaddwd %ymm6, %ymm13, %ymm6
 vpaddd %ymm6, %ymm0, %ymm0
 vpaddd %ymm0, %ymm11, %ymm11
 vmovdqa 384(%r4,%r3), %ymm0
 vmovdqa 416(%r4,%r3), %ymm15
 vpmaddwd %ymm0, %ymm14, %ymm5
 vpmaddwd %ymm15, %ymm8, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vpbroadcastd -824(%r2,%r1,4), %ymm7
 vpaddd %ymm5, %ymm12, %ymm12
 vpbroadcastd -760(%r2,%r1,4), %ymm6
 vpmaddwd %ymm0, %ymm9, %ymm0
 vpmaddwd %ymm15, %ymm13, %ymm15
 vpaddd %ymm15, %ymm0, %ymm0
 vpaddd %ymm0, %ymm10, %ymm15
 vmovdqa 448(%r4,%r3), %ymm0
 vmovdqa 480(%r4,%r3), %ymm10
 vpmaddwd %ymm0, %ymm14, %ymm5
 vpmaddwd %ymm10, %ymm8, %ymm14
 vpaddd %ymm5, %ymm14, %ymm5
 vpaddd %ymm5, %ymm1, %ymm5
 vpmaddwd %ymm0, %ymm9, %ymm0
 vpmaddwd %ymm10, %ymm13, %ymm1
 vpaddd %ymm1, %ymm0, %ymm0
 vpaddd [stack+2], %ymm0, %ymm0
 vmovdqa %ymm0, [stack+2]
 vpand [stack+0], %ymm7, %ymm14
 vpsrlw $8, %ymm7, %ymm0
 vpand [stack+0], %ymm6, %ymm1
 vpsrlw $8, %ymm6, %ymm7
 vmovdqa 512(%r4,%r3), %ymm6
 vmovdqa 544(%r4,%r3), %ymm10
 vpmaddwd %ymm6, %ymm14, %ymm9
 vpmaddwd %ymm0, %ymm10, %ymm13
 vpaddd %ymm13, %ymm9, %ymm9
 vpaddd %ymm4, %ymm9, %ymm8
 vpmaddwd %ymm6, %ymm1, %ymm6
 vpmaddwd %ymm7, %ymm10, %ymm4
 vpaddd %ymm4, %ymm6, %ymm6
 vpaddd %ymm6, %ymm2, %ymm9
 vmovdqa 576(%r4,%r3), %ymm6
 vmovdqa 608(%r4,%r3), %ymm4
 vpmaddwd %ymm6, %ymm14, %ymm2
 vpmaddwd %ymm4, %ymm0, %ymm10
 vpaddd %ymm2, %ymm10, %ymm2
 vpaddd %ymm2, %ymm3, %ymm10
 vpmaddwd %ymm6, %ymm1, %ymm6
 vpmaddwd %ymm4, %ymm7, %ymm4
 vpaddd %ymm4, %ymm6, %ymm6
 vpaddd %ymm6, %ymm11, %ymm11
 vmovdqa 640(%r4,%r3), %ymm6
 vmovdqa 672(%r4,%r3), %ymm4
 vpmaddwd %ymm6, %ymm14, %ymm2
 vpmaddwd %ymm4, %ymm0, %ymm3
 vpaddd %ymm2, %ymm3, %ymm2
 vpaddd %ymm2, %ymm12, %ymm12
 vpmaddwd %ymm6, %ymm1, %ymm6
 vpmaddwd %ymm4, %ymm7, %ymm4
 vpaddd %ymm4, %ymm6, %ymm6
 vpaddd %ymm6, %ymm15, %ymm13
 vmovdqa 704(%r4,%r3), %ymm6
 vmovdqa 736(%r4,%r3), %ymm15
 vpmaddwd %ymm6, %ymm14, %ymm4
 vpmaddwd %ymm15, %ymm0, %ymm0
 vpaddd %ymm0, %ymm4, %ymm0
 vpaddd %ymm0, %ymm5, %ymm14
 vpmaddwd %ymm6, %ymm1, %ymm0
 vmovdqa [stack+0], %ymm1
 vpmaddwd %ymm15, %ymm7, %ymm6
 vpaddd %ymm6, %ymm0, %ymm0
 movq %r0, %r3
 shlq $7, %r3
 vcvtdq2ps [stack+3,%r3], %ymm6
 vmulps [stack+4], %ymm6, %ymm6
 vmovdqa [stack+5], %ymm4
 vpminsd %ymm4, %ymm6, %ymm6
 vcvtps2dq %ymm6, %ymm6
 vcvtdq2ps [stack+6,%r3], %ymm15
 vmulps [stack+7], %ymm15, %ymm15
 vpminsd %ymm4, %ymm15, %ymm15
 vcvtps2dq %ymm15, %ymm15
 vcvtdq2ps [stack+8,%r3], %ymm5
 vpackssdw %ymm15, %ymm6, %ymm6
 vmulps [stack+9], %ymm5, %ymm15
 vpminsd %ymm4, %ymm15, %ymm15
 vcvtps2dq %ymm15, %ymm15
 vcvtdq2ps [stack+10,%r3], %ymm5
 vmulps [stack+11], %ymm5, %ymm5
 vpminsd %ymm4, %ymm5, %ymm5
 vcvtps2dq %ymm5, %ymm5
 vpackssdw %ymm5, %ymm15, %ymm15
 vmovdqa [stack+12], %ymm5
 vpaddsw %ymm5, %ymm6, %ymm6
 vpaddsw %ymm5, %ymm15, %ymm15
 vpackuswb %ymm15, %ymm6, %ymm6
 shlq $6, %r0
 vmovdqa %ymm6, (%r5,%r0)
 vpaddd [stack+2], %ymm0, %ymm15
 movl %r6d, %r3d
 movl $1, %r0d
 xorl %r6d, %r6d
 testb $1, %r3b
 jne L0
