; x86.conv version 2 on x86-amx
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=14, tile_registers=2, outer=weights, border=skip, unroll=2, store=after, fetch=demand
; all code: 834 lines, sha256 ed125f51830b3f4c7b61b7bf7ec58105218f3798faceb7e1fdcc21882f705aeb
; inner loop: 104 instructions, 56 products, 32 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 movl %r0d, %r1d
 shrl $3, %r1d
 movl %r0d, %r2d
 andl $7, %r2d
 leal (%r1,%r1,2), %r3d
 addl %r4d, %r1d
 imull $896, %r1d, %r1d
 leal (%r1,%r2,8), %r1d
 shll $8, %r2d
 shll $11, %r3d
 addl %r5d, %r3d
 orl %r2d, %r3d
 movslq %r1d, %r1
 vpbroadcastd -896(%r6,%r1), %zmm0
 vmovdqa64 2048(%r7,%r3), %zmm1
 vmovdqa64 2112(%r7,%r3), %zmm2
 vpdpbusd %zmm1, %zmm0, %zmm3
 vpdpbusd %zmm2, %zmm0, %zmm4
 vpbroadcastd -832(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm5
 vpdpbusd %zmm2, %zmm0, %zmm6
 vpbroadcastd -768(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm7
 vpdpbusd %zmm2, %zmm0, %zmm8
 vpbroadcastd -704(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm9
 vpdpbusd %zmm2, %zmm0, %zmm10
 vpbroadcastd -640(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm11
 vpdpbusd %zmm2, %zmm0, %zmm12
 vpbroadcastd -576(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm13
 vpdpbusd %zmm2, %zmm0, %zmm14
 vpbroadcastd -512(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm15
 vpdpbusd %zmm2, %zmm0, %zmm16
 vpbroadcastd -448(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm17
 vpdpbusd %zmm2, %zmm0, %zmm18
 vpbroadcastd -384(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm19
 vpdpbusd %zmm2, %zmm0, %zmm20
 vpbroadcastd -320(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm21
 vpdpbusd %zmm2, %zmm0, %zmm22
 vpbroadcastd -256(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm23
 vpdpbusd %zmm2, %zmm0, %zmm24
 vpbroadcastd -192(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm25
 vpdpbusd %zmm2, %zmm0, %zmm26
 vpbroadcastd -128(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm27
 vpdpbusd %zmm2, %zmm0, %zmm28
 vpbroadcastd -64(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm29
 vmovdqa64 2176(%r7,%r3), %zmm1
 vpdpbusd %zmm2, %zmm0, %zmm30
 vmovdqa64 2240(%r7,%r3), %zmm2
 vpbroadcastd -892(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm3
 vpdpbusd %zmm2, %zmm0, %zmm4
 vpbroadcastd -828(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm5
 vpdpbusd %zmm2, %zmm0, %zmm6
 vpbroadcastd -764(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm7
 vpdpbusd %zmm2, %zmm0, %zmm8
 vpbroadcastd -700(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm9
 vpdpbusd %zmm2, %zmm0, %zmm10
 vpbroadcastd -636(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm11
 vpdpbusd %zmm2, %zmm0, %zmm12
 vpbroadcastd -572(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm13
 vpdpbusd %zmm2, %zmm0, %zmm14
 vpbroadcastd -508(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm15
 vpdpbusd %zmm2, %zmm0, %zmm16
 vpbroadcastd -444(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm17
 vpdpbusd %zmm2, %zmm0, %zmm18
 vpbroadcastd -380(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm19
 vpdpbusd %zmm2, %zmm0, %zmm20
 vpbroadcastd -316(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm21
 vpdpbusd %zmm2, %zmm0, %zmm22
 vpbroadcastd -252(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm23
 vpdpbusd %zmm2, %zmm0, %zmm24
 vpbroadcastd -188(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm25
 vpdpbusd %zmm2, %zmm0, %zmm26
 vpbroadcastd -124(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm27
 vpdpbusd %zmm2, %zmm0, %zmm28
 vpbroadcastd -60(%r6,%r1), %zmm0
 vpdpbusd %zmm1, %zmm0, %zmm29
 vpdpbusd %zmm2, %zmm0, %zmm30
 incl %r0d
 cmpl %r8d, %r0d
 jb L0
