; x86.conv version 3 on x86-amx
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=14, tile_registers=2, outer=weights, border=skip, unroll=2, store=after, fetch=next,
; last_tile=overlapping
; all code: 860 lines, sha256 779667d1a2b199f6472d8a9caa24b090f65fa453717ac91473403dfd7bda12a2
; inner loop: 109 instructions, 56 products, 32 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 movl %r0d, %r1d
 shrl $3, %r1d
 movl %r0d, %r2d
 andl $7, %r2d
 movl %r2d, %r3d
 shll $8, %r3d
 leal (%r1,%r1,2), %r4d
 shll $11, %r4d
 addl %r5d, %r4d
 orl %r3d, %r4d
 vmovdqa64 2048(%r6,%r4), %zmm0
 addl %r7d, %r1d
 imull $896, %r1d, %r1d
 leal (%r1,%r2,8), %r1d
 vmovdqa64 2112(%r6,%r4), %zmm1
 movslq %r1d, %r2
 vpbroadcastd -896(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm3
 vpdpbusd %zmm1, %zmm2, %zmm4
 vpbroadcastd -832(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm5
 vpdpbusd %zmm1, %zmm2, %zmm6
 vpbroadcastd -768(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm7
 vpbroadcastd -704(%r8,%r2), %zmm8
 vpdpbusd %zmm1, %zmm2, %zmm9
 vpdpbusd %zmm0, %zmm8, %zmm10
 vpdpbusd %zmm1, %zmm8, %zmm11
 vpbroadcastd -640(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm12
 vpdpbusd %zmm1, %zmm2, %zmm13
 vpbroadcastd -576(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm14
 vpbroadcastd -512(%r8,%r2), %zmm8
 vpdpbusd %zmm1, %zmm2, %zmm15
 vpdpbusd %zmm0, %zmm8, %zmm16
 vpdpbusd %zmm1, %zmm8, %zmm17
 vpbroadcastd -448(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm18
 vpdpbusd %zmm1, %zmm2, %zmm19
 vpbroadcastd -384(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm20
 vpbroadcastd -320(%r8,%r2), %zmm8
 vpdpbusd %zmm1, %zmm2, %zmm21
 vpdpbusd %zmm0, %zmm8, %zmm22
 vpdpbusd %zmm1, %zmm8, %zmm23
 vpbroadcastd -256(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm24
 vpdpbusd %zmm1, %zmm2, %zmm25
 vpbroadcastd -192(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm26
 vpbroadcastd -128(%r8,%r2), %zmm8
 vpdpbusd %zmm1, %zmm2, %zmm27
 movl %r9d, %r1d
 vpdpbusd %zmm0, %zmm8, %zmm28
 vpdpbusd %zmm1, %zmm8, %zmm29
 vpbroadcastd -64(%r8,%r2), %zmm2
 vpdpbusd %zmm0, %zmm2, %zmm30
 vpdpbusd %zmm1, %zmm2, %zmm31
 prefetcht0 (%r10)
 vmovdqa64 2176(%r6,%r4), %zmm1
 vmovdqa64 2240(%r6,%r4), %zmm0
 vpbroadcastd -892(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm3
 vpdpbusd %zmm0, %zmm2, %zmm4
 vpbroadcastd -828(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm5
 vpdpbusd %zmm0, %zmm2, %zmm6
 vpbroadcastd -764(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm7
 vpdpbusd %zmm0, %zmm2, %zmm9
 vpbroadcastd -700(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm10
 vpdpbusd %zmm0, %zmm2, %zmm11
 vpbroadcastd -636(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm12
 vpdpbusd %zmm0, %zmm2, %zmm13
 vpbroadcastd -572(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm14
 vpdpbusd %zmm0, %zmm2, %zmm15
 vpbroadcastd -508(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm16
 vpdpbusd %zmm0, %zmm2, %zmm17
 vpbroadcastd -444(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm18
 vpdpbusd %zmm0, %zmm2, %zmm19
 vpbroadcastd -380(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm20
 vpdpbusd %zmm0, %zmm2, %zmm21
 vpbroadcastd -316(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm22
 vpdpbusd %zmm0, %zmm2, %zmm23
 vpbroadcastd -252(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm24
 vpdpbusd %zmm0, %zmm2, %zmm25
 vpbroadcastd -188(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm26
 vpdpbusd %zmm0, %zmm2, %zmm27
 vpbroadcastd -124(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm28
 vpdpbusd %zmm0, %zmm2, %zmm29
 vpbroadcastd -60(%r8,%r2), %zmm2
 vpdpbusd %zmm1, %zmm2, %zmm30
 vpdpbusd %zmm0, %zmm2, %zmm31
 incl %r0d
 addq $64, %r10
 leal 64(%r1), %r9d
 cmpl %r11d, %r0d
 jb L0
