; generic.depthwise version 1 on x86-avxvnni
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 414 lines, sha256 29e054ca7f3358dfd919faec775b678a0f630085e741e7508cda83c2ad8e8dba
; inner loop: 149 instructions, 36 products, 29 loads, 4 stores; on the stack 0 loads, 0 stores
L0:
 vpmovsxbd -64(%r0), %ymm0
 vpmovzxbd -2112(%r1,%r2), %ymm1
 vpmovzxbd -2048(%r1,%r2), %ymm2
 vpmovzxbd -1984(%r1,%r2), %ymm3
 vpmovzxbd -1920(%r1,%r2), %ymm4
 vpmovsxbd -56(%r0), %ymm5
 vpmaddwd %ymm2, %ymm5, %ymm6
 vpmaddwd %ymm0, %ymm1, %ymm1
 vpaddd %ymm1, %ymm6, %ymm1
 vpmaddwd %ymm3, %ymm5, %ymm6
 vpmaddwd %ymm0, %ymm2, %ymm2
 vpaddd %ymm2, %ymm6, %ymm2
 vpmaddwd %ymm4, %ymm5, %ymm6
 vpmaddwd %ymm0, %ymm3, %ymm7
 vpaddd %ymm7, %ymm6, %ymm6
 vpmovzxbd -1856(%r1,%r2), %ymm7
 vpmaddwd %ymm5, %ymm7, %ymm5
 vpmaddwd %ymm0, %ymm4, %ymm0
 vpaddd %ymm0, %ymm5, %ymm0
 vpmovsxbd -48(%r0), %ymm5
 vpmaddwd %ymm3, %ymm5, %ymm3
 vpaddd %ymm1, %ymm3, %ymm1
 vpmaddwd %ymm4, %ymm5, %ymm3
 vpaddd %ymm2, %ymm3, %ymm2
 vpmaddwd %ymm7, %ymm5, %ymm3
 vpaddd %ymm3, %ymm6, %ymm3
 vpmovzxbd -1792(%r1,%r2), %ymm4
 vpmaddwd %ymm5, %ymm4, %ymm4
 vpaddd %ymm0, %ymm4, %ymm0
 vpmovsxbd -40(%r0), %ymm4
 vpmovzxbd -1216(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm5
 vpaddd %ymm1, %ymm5, %ymm1
 vpmovzxbd -1152(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm6
 vpaddd %ymm2, %ymm6, %ymm2
 vpmovzxbd -1088(%r1,%r2), %ymm6
 vpmaddwd %ymm4, %ymm6, %ymm7
 vpaddd %ymm7, %ymm3, %ymm3
 vpmovzxbd -1024(%r1,%r2), %ymm7
 vpmaddwd %ymm4, %ymm7, %ymm4
 vpaddd %ymm0, %ymm4, %ymm0
 vpmovsxbd -32(%r0), %ymm4
 vpmaddwd %ymm5, %ymm4, %ymm5
 vpaddd %ymm1, %ymm5, %ymm1
 vpmaddwd %ymm6, %ymm4, %ymm5
 vpaddd %ymm2, %ymm5, %ymm2
 vpmaddwd %ymm7, %ymm4, %ymm5
 vpaddd %ymm5, %ymm3, %ymm3
 vpmovzxbd -960(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm4
 vpaddd %ymm0, %ymm4, %ymm0
 vpmovsxbd -24(%r0), %ymm4
 vpmaddwd %ymm6, %ymm4, %ymm6
 vpaddd %ymm1, %ymm6, %ymm1
 vpmaddwd %ymm7, %ymm4, %ymm6
 vpaddd %ymm2, %ymm6, %ymm2
 vpmaddwd %ymm5, %ymm4, %ymm5
 vpaddd %ymm5, %ymm3, %ymm3
 vpmovzxbd -896(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm4
 vpaddd %ymm0, %ymm4, %ymm0
 vpmovsxbd -16(%r0), %ymm4
 vpmovzxbd -320(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm5
 vpaddd %ymm1, %ymm5, %ymm1
 vpmovzxbd -256(%r1,%r2), %ymm5
 vpmaddwd %ymm4, %ymm5, %ymm6
 vpaddd %ymm2, %ymm6, %ymm2
 vpmovzxbd -192(%r1,%r2), %ymm6
 vpmaddwd %ymm4, %ymm6, %ymm7
 vpaddd %ymm7, %ymm3, %ymm3
 vpmovzxbd -128(%r1,%r2), %ymm7
 vpmaddwd %ymm4, %ymm7, %ymm4
 vpaddd %ymm0, %ymm4, %ymm0
 vpmovsxbd -8(%r0), %ymm8
 vpmaddwd %ymm5, %ymm8, %ymm4
 vpaddd %ymm1, %ymm4, %ymm5
 vpmaddwd %ymm6, %ymm8, %ymm1
 vpaddd %ymm1, %ymm2, %ymm9
 vpmaddwd %ymm7, %ymm8, %ymm1
 vpaddd %ymm1, %ymm3, %ymm4
 vpmovzxbd -64(%r1,%r2), %ymm1
 vpmaddwd %ymm1, %ymm8, %ymm2
 vpaddd %ymm2, %ymm0, %ymm0
 vpmovsxbd (%r0), %ymm2
 vpmaddwd %ymm2, %ymm6, %ymm6
 vpmaddwd %ymm2, %ymm7, %ymm7
 vpmovzxbd (%r1,%r2), %ymm3
 vpmaddwd %ymm1, %ymm2, %ymm8
 vpmaddwd %ymm2, %ymm3, %ymm2
 vmovaps (%r3,%r2,4), %ymm1
 vmovdqa (%r4,%r2,4), %ymm3
 vpaddd %ymm3, %ymm6, %ymm6
 vpaddd %ymm6, %ymm5, %ymm5
 vcvtdq2ps %ymm5, %ymm5
 vmulps %ymm1, %ymm5, %ymm5
 vmaxps %ymm10, %ymm5, %ymm5
 vminps %ymm11, %ymm5, %ymm5
 vaddps %ymm12, %ymm5, %ymm5
 vpaddd %ymm13, %ymm5, %ymm5
 vextracti128 $1, %ymm5, %xmm6
 vpshufb %xmm14, %xmm6, %xmm6
 vpshufb %xmm14, %xmm5, %xmm5
 vpunpckldq %xmm6, %xmm5, %xmm5
 vmovq %xmm5, -192(%r5,%r2)
 vpaddd %ymm3, %ymm7, %ymm5
 vpaddd %ymm5, %ymm9, %ymm5
 vcvtdq2ps %ymm5, %ymm5
 vmulps %ymm1, %ymm5, %ymm5
 vmaxps %ymm10, %ymm5, %ymm5
 vminps %ymm11, %ymm5, %ymm5
 vaddps %ymm12, %ymm5, %ymm5
 vpaddd %ymm13, %ymm5, %ymm5
 vextracti128 $1, %ymm5, %xmm6
 vpshufb %xmm14, %xmm6, %xmm6
 vpshufb %xmm14, %xmm5, %xmm5
 vpunpckldq %xmm6, %xmm5, %xmm5
 vmovq %xmm5, -128(%r5,%r2)
 vpaddd %ymm3, %ymm8, %ymm5
 vpaddd %ymm5, %ymm4, %ymm4
 vcvtdq2ps %ymm4, %ymm4
 vmulps %ymm1, %ymm4, %ymm4
 vmaxps %ymm10, %ymm4, %ymm4
 vminps %ymm11, %ymm4, %ymm4
 vaddps %ymm12, %ymm4, %ymm4
 vpaddd %ymm13, %ymm4, %ymm4
 vextracti128 $1, %ymm4, %xmm5
 vpshufb %xmm14, %xmm5, %xmm5
 vpshufb %xmm14, %xmm4, %xmm4
 vpunpckldq %xmm5, %xmm4, %xmm4
 vmovq %xmm4, -64(%r5,%r2)
 vpaddd %ymm2, %ymm3, %ymm2
 vpaddd %ymm2, %ymm0, %ymm0
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm1, %ymm0
 vmaxps %ymm10, %ymm0, %ymm0
 vminps %ymm11, %ymm0, %ymm0
 vaddps %ymm12, %ymm0, %ymm0
 vpaddd %ymm0, %ymm13, %ymm0
 vextracti128 $1, %ymm0, %xmm1
 vpshufb %xmm14, %xmm1, %xmm1
 vpshufb %xmm14, %xmm0, %xmm0
 vpunpckldq %xmm1, %xmm0, %xmm0
 vmovq %xmm0, (%r5,%r2)
 addq $8, %r2
 addq $72, %r0
 cmpq $64, %r2
 jne L0
