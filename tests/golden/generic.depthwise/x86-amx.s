; generic.depthwise version 1 on x86-amx
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 362 lines, sha256 79b4499247ea7233903843eebfe4d4bd58a2f18fa9654e09c49d02bde4a53a69
; inner loop: 133 instructions, 36 products, 29 loads, 4 stores; on the stack 0 loads, 0 stores
L0:
 vpmovsxbd -128(%r0), %zmm0
 vpmovzxbd -2112(%r1,%r2), %zmm1
 vpmovzxbd -2048(%r1,%r2), %zmm2
 vpmovzxbd -1984(%r1,%r2), %zmm3
 vpmovzxbd -1920(%r1,%r2), %zmm4
 vpmovsxbd -112(%r0), %zmm5
 vpmaddwd %zmm2, %zmm5, %zmm6
 vpmaddwd %zmm0, %zmm1, %zmm1
 vpaddd %zmm1, %zmm6, %zmm1
 vpmaddwd %zmm3, %zmm5, %zmm6
 vpmaddwd %zmm0, %zmm2, %zmm2
 vpaddd %zmm2, %zmm6, %zmm2
 vpmaddwd %zmm4, %zmm5, %zmm6
 vpmaddwd %zmm0, %zmm3, %zmm7
 vpaddd %zmm7, %zmm6, %zmm6
 vpmovzxbd -1856(%r1,%r2), %zmm7
 vpmaddwd %zmm5, %zmm7, %zmm5
 vpmaddwd %zmm0, %zmm4, %zmm0
 vpaddd %zmm0, %zmm5, %zmm0
 vpmovsxbd -96(%r0), %zmm5
 vpmaddwd %zmm3, %zmm5, %zmm3
 vpaddd %zmm3, %zmm1, %zmm1
 vpmaddwd %zmm4, %zmm5, %zmm3
 vpaddd %zmm3, %zmm2, %zmm2
 vpmaddwd %zmm7, %zmm5, %zmm3
 vpaddd %zmm3, %zmm6, %zmm3
 vpmovzxbd -1792(%r1,%r2), %zmm4
 vpmaddwd %zmm5, %zmm4, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd -80(%r0), %zmm4
 vpmovzxbd -1216(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm5
 vpaddd %zmm5, %zmm1, %zmm1
 vpmovzxbd -1152(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm6
 vpaddd %zmm6, %zmm2, %zmm2
 vpmovzxbd -1088(%r1,%r2), %zmm6
 vpmaddwd %zmm4, %zmm6, %zmm7
 vpaddd %zmm7, %zmm3, %zmm3
 vpmovzxbd -1024(%r1,%r2), %zmm7
 vpmaddwd %zmm4, %zmm7, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd -64(%r0), %zmm4
 vpmaddwd %zmm5, %zmm4, %zmm5
 vpaddd %zmm5, %zmm1, %zmm1
 vpmaddwd %zmm6, %zmm4, %zmm5
 vpaddd %zmm5, %zmm2, %zmm2
 vpmaddwd %zmm7, %zmm4, %zmm5
 vpaddd %zmm5, %zmm3, %zmm3
 vpmovzxbd -960(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd -48(%r0), %zmm4
 vpmaddwd %zmm6, %zmm4, %zmm6
 vpaddd %zmm6, %zmm1, %zmm1
 vpmaddwd %zmm7, %zmm4, %zmm6
 vpaddd %zmm6, %zmm2, %zmm2
 vpmaddwd %zmm5, %zmm4, %zmm5
 vpaddd %zmm5, %zmm3, %zmm3
 vpmovzxbd -896(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd -32(%r0), %zmm4
 vpmovzxbd -320(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm5
 vpaddd %zmm5, %zmm1, %zmm1
 vpmovzxbd -256(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm6
 vpaddd %zmm6, %zmm2, %zmm2
 vpmovzxbd -192(%r1,%r2), %zmm6
 vpmaddwd %zmm4, %zmm6, %zmm7
 vpaddd %zmm7, %zmm3, %zmm3
 vpmovzxbd -128(%r1,%r2), %zmm7
 vpmaddwd %zmm4, %zmm7, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd -16(%r0), %zmm4
 vpmaddwd %zmm5, %zmm4, %zmm5
 vpaddd %zmm5, %zmm1, %zmm1
 vpmaddwd %zmm6, %zmm4, %zmm5
 vpaddd %zmm5, %zmm2, %zmm2
 vpmaddwd %zmm7, %zmm4, %zmm5
 vpaddd %zmm5, %zmm3, %zmm3
 vpmovzxbd -64(%r1,%r2), %zmm5
 vpmaddwd %zmm4, %zmm5, %zmm4
 vpaddd %zmm4, %zmm0, %zmm0
 vpmovsxbd (%r0), %zmm4
 vpmaddwd %zmm6, %zmm4, %zmm6
 vpmaddwd %zmm7, %zmm4, %zmm7
 vpmovzxbd (%r1,%r2), %zmm8
 vpmaddwd %zmm5, %zmm4, %zmm5
 vpmaddwd %zmm4, %zmm8, %zmm4
 vmovaps (%r3,%r2,4), %zmm8
 vmovdqa64 (%r4,%r2,4), %zmm9
 vpaddd %zmm9, %zmm6, %zmm6
 vpaddd %zmm6, %zmm1, %zmm1
 vcvtdq2ps %zmm1, %zmm1
 vmulps %zmm1, %zmm8, %zmm1
 vmaxps %zmm10, %zmm1, %zmm1
 vminps %zmm11, %zmm1, %zmm1
 vaddps %zmm12, %zmm1, %zmm1
 vpaddd %zmm1, %zmm13, %zmm1
 vpmovdb %zmm1, -192(%r5,%r2)
 vpaddd %zmm9, %zmm7, %zmm1
 vpaddd %zmm1, %zmm2, %zmm1
 vcvtdq2ps %zmm1, %zmm1
 vmulps %zmm1, %zmm8, %zmm1
 vmaxps %zmm10, %zmm1, %zmm1
 vminps %zmm11, %zmm1, %zmm1
 vaddps %zmm12, %zmm1, %zmm1
 vpaddd %zmm1, %zmm13, %zmm1
 vpmovdb %zmm1, -128(%r5,%r2)
 vpaddd %zmm9, %zmm5, %zmm1
 vpaddd %zmm1, %zmm3, %zmm1
 vcvtdq2ps %zmm1, %zmm1
 vmulps %zmm1, %zmm8, %zmm1
 vmaxps %zmm10, %zmm1, %zmm1
 vminps %zmm11, %zmm1, %zmm1
 vaddps %zmm12, %zmm1, %zmm1
 vpaddd %zmm1, %zmm13, %zmm1
 vpmovdb %zmm1, -64(%r5,%r2)
 vpaddd %zmm9, %zmm4, %zmm1
 vpaddd %zmm1, %zmm0, %zmm0
 vcvtdq2ps %zmm0, %zmm0
 vmulps %zmm0, %zmm8, %zmm0
 vmaxps %zmm10, %zmm0, %zmm0
 vminps %zmm11, %zmm0, %zmm0
 vaddps %zmm12, %zmm0, %zmm0
 vpaddd %zmm0, %zmm13, %zmm0
 vpmovdb %zmm0, (%r5,%r2)
 addq $16, %r2
 addq $144, %r0
 cmpq $64, %r2
 jne L0
