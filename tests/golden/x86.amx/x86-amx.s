; x86.amx version 2 on x86-amx
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=14, tile_rows=1, tile_registers=2, rows=apart, outer=weights, fetch=demand, store=beside
; all code: 988 lines, sha256 46099028096812a766221972003a66731105b522c0b4f16cf0a0dd076757c02d
; inner loop: 306 instructions, 18 products, 83 loads, 16 stores; on the stack 5 loads, 0 stores
L0:
 movl %r0d, %r1d
 movl %r2d, %r0d
 movq [stack+0], %r3
 tileloadd (%r3,%r4), %tmm3
 tileloadd (%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 tileloadd (%r2,%r4), %tmm2
 movl $128, %r3d
 tilestored %tmm0, (%r8,%r3)
 xorl %r9d, %r9d
 movq [stack+1], %r2
 tileloadd (%r2,%r9), %tmm0
 tdpbusd %tmm3, %tmm2, %tmm0
 movq [stack+2], %r2
 tilestored %tmm1, (%r2,%r3)
 movq [stack+3], %r3
 tileloadd (%r3,%r9), %tmm1
 tdpbusd %tmm4, %tmm2, %tmm1
 shll $5, %r10d
 movslq %r10d, %r10
 shll $6, %r1d
 addl %r10d, %r1d
 tileloadd 1024(%r5,%r4), %tmm3
 tileloadd 2048(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 addq $64, %r2
 tileloadd (%r2,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 movslq %r1d, %r2
 testq %r11, %r11
 je L1
 vcvtdq2ps (%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 64(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vcvtdq2ps 128(%r8), %zmm5
 vpaddsw %zmm4, %zmm0, %zmm0
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 192(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 vmovdqa %ymm0, (%r14,%r2)
 vmovdqa %ymm1, 64(%r14,%r2)
L1:
 tileloadd 3072(%r5,%r4), %tmm3
 tileloadd 4096(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r9
 addq $128, %r9
 tileloadd (%r9,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $2, %r11
 jb L2
 vcvtdq2ps 256(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 320(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vpaddsw %zmm4, %zmm0, %zmm0
 vcvtdq2ps 384(%r8), %zmm5
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 448(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 leal 128(%r1), %r9d
 movslq %r9d, %r9
 vmovdqa %ymm0, (%r14,%r9)
 vmovdqa %ymm1, 64(%r14,%r9)
L2:
 tileloadd 5120(%r5,%r4), %tmm3
 tileloadd 6144(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r9
 addq $1024, %r9
 tileloadd (%r9,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $3, %r11
 jb L3
 vcvtdq2ps 512(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 576(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vcvtdq2ps 640(%r8), %zmm5
 vpaddsw %zmm4, %zmm0, %zmm0
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 704(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 vmovdqa %ymm0, 256(%r14,%r2)
 vmovdqa %ymm1, 320(%r14,%r2)
L3:
 tileloadd 7168(%r5,%r4), %tmm3
 tileloadd 8192(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 addq $1088, %r2
 tileloadd (%r2,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $4, %r11
 jb L4
 vcvtdq2ps 768(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 832(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vpaddsw %zmm4, %zmm0, %zmm0
 vcvtdq2ps 896(%r8), %zmm5
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 960(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 leal 128(%r1), %r2d
 movslq %r2d, %r2
 vmovdqa %ymm0, 256(%r14,%r2)
 vmovdqa %ymm1, 320(%r14,%r2)
L4:
 tileloadd 9216(%r5,%r4), %tmm3
 tileloadd 10240(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 addq $1152, %r2
 tileloadd (%r2,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $5, %r11
 jb L5
 vcvtdq2ps 1024(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 1088(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vpaddsw %zmm4, %zmm0, %zmm0
 vcvtdq2ps 1152(%r8), %zmm5
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 1216(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 leal 256(%r1), %r2d
 movslq %r2d, %r2
 vmovdqa %ymm0, 256(%r14,%r2)
 vmovdqa %ymm1, 320(%r14,%r2)
L5:
 tileloadd 11264(%r5,%r4), %tmm3
 tileloadd 12288(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 addq $2048, %r2
 tileloadd (%r2,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $6, %r11
 jb L6
 leal 384(%r1), %r2d
 vcvtdq2ps 1280(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 1344(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vpaddsw %zmm4, %zmm0, %zmm0
 vcvtdq2ps 1408(%r8), %zmm5
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 1472(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 movslq %r2d, %r2
 vmovdqa %ymm0, 256(%r14,%r2)
 vmovdqa %ymm1, 320(%r14,%r2)
L6:
 tileloadd 13312(%r5,%r4), %tmm3
 tileloadd 14336(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r2
 addq $2112, %r2
 tileloadd (%r2,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 cmpq $7, %r11
 jb L7
 vcvtdq2ps 1536(%r8), %zmm0
 vmovaps (%r12,%r10,4), %zmm1
 vmovaps 64(%r12,%r10,4), %zmm2
 vmulps %zmm0, %zmm1, %zmm0
 vpminsd %zmm3, %zmm0, %zmm0
 vcvtps2dq %zmm0, %zmm0
 vcvtdq2ps 1600(%r8), %zmm4
 vmulps %zmm4, %zmm2, %zmm4
 vpminsd %zmm3, %zmm4, %zmm4
 vcvtps2dq %zmm4, %zmm4
 vpackssdw %zmm4, %zmm0, %zmm0
 vpbroadcastw 8(%r13), %zmm4
 vpaddsw %zmm4, %zmm0, %zmm0
 vcvtdq2ps 1664(%r8), %zmm5
 vmulps %zmm5, %zmm1, %zmm1
 vpminsd %zmm3, %zmm1, %zmm1
 vcvtps2dq %zmm1, %zmm1
 vcvtdq2ps 1728(%r8), %zmm5
 vmulps %zmm5, %zmm2, %zmm2
 vpminsd %zmm3, %zmm2, %zmm2
 vcvtps2dq %zmm2, %zmm2
 vpackssdw %zmm2, %zmm1, %zmm1
 vpaddsw %zmm4, %zmm1, %zmm1
 vpackuswb %zmm1, %zmm0, %zmm0
 vpermq %zmm0, %zmm6, %zmm1
 vpermq %zmm0, %zmm7, %zmm0
 addl $512, %r1d
 movslq %r1d, %r11
 vmovdqa %ymm0, 256(%r14,%r11)
 vmovdqa %ymm1, 320(%r14,%r11)
L7:
 tileloadd 15360(%r5,%r4), %tmm3
 tileloadd 16384(%r5,%r4), %tmm4
 leaq (%r6,%r7), %r11
 addq $2176, %r11
 tileloadd (%r11,%r4), %tmm2
 tdpbusd %tmm3, %tmm2, %tmm0
 tdpbusd %tmm4, %tmm2, %tmm1
 leal 14(%r0), %r2d
 addq $1024, %r7
 movl $7, %r11d
 movq [stack+4], %r3
 movl %r3d, %r10d
 cmpq $14336, %r7
 jne L0
