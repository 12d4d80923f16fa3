; x86.conv version 3 on x86-avxvnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=3, tile_registers=4, outer=weights, border=skip, unroll=2, store=beside, fetch=next, last_tile=narrower
; all code: 1890 lines, sha256 ce73b8f9987e3508ae60d525f1a8f9eb2ddc35d63ea44cefb00b97ceee020a35
; inner loop: 54 instructions, 24 products, 14 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 movl %r0d, %r1d
 shrl $3, %r1d
 movl %r0d, %r2d
 andl $7, %r2d
 leal (%r3,%r1), %r4d
 imull $896, %r4d, %r4d
 leal (%r4,%r2,8), %r4d
 movslq %r4d, %r4
 vpbroadcastd -896(%r5,%r4), %ymm0
 vpbroadcastd -832(%r5,%r4), %ymm1
 vpbroadcastd -768(%r5,%r4), %ymm2
 shll $8, %r2d
 leal (%r1,%r1,2), %r1d
 shll $11, %r1d
 addl %r6d, %r1d
 orl %r2d, %r1d
 vmovdqa 2048(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm0, %ymm4
 {vex} vpdpbusd %ymm3, %ymm1, %ymm5
 {vex} vpdpbusd %ymm3, %ymm2, %ymm6
 vmovdqa 2080(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm0, %ymm7
 {vex} vpdpbusd %ymm3, %ymm1, %ymm8
 {vex} vpdpbusd %ymm3, %ymm2, %ymm9
 vmovdqa 2112(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm0, %ymm10
 {vex} vpdpbusd %ymm3, %ymm1, %ymm11
 {vex} vpdpbusd %ymm3, %ymm2, %ymm12
 vmovdqa 2144(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm0, %ymm13
 {vex} vpdpbusd %ymm3, %ymm1, %ymm14
 {vex} vpdpbusd %ymm3, %ymm2, %ymm15
 vpbroadcastd -892(%r5,%r4), %ymm2
 vpbroadcastd -828(%r5,%r4), %ymm1
 vpbroadcastd -764(%r5,%r4), %ymm0
 vmovdqa 2176(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm2, %ymm4
 {vex} vpdpbusd %ymm3, %ymm1, %ymm5
 {vex} vpdpbusd %ymm3, %ymm0, %ymm6
 vmovdqa 2208(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm2, %ymm7
 {vex} vpdpbusd %ymm3, %ymm1, %ymm8
 {vex} vpdpbusd %ymm3, %ymm0, %ymm9
 vmovdqa 2240(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm2, %ymm10
 {vex} vpdpbusd %ymm3, %ymm1, %ymm11
 {vex} vpdpbusd %ymm3, %ymm0, %ymm12
 vmovdqa 2272(%r7,%r1), %ymm3
 {vex} vpdpbusd %ymm3, %ymm2, %ymm13
 {vex} vpdpbusd %ymm3, %ymm1, %ymm14
 {vex} vpdpbusd %ymm3, %ymm0, %ymm15
 incl %r0d
 cmpl %r8d, %r0d
 jb L0
