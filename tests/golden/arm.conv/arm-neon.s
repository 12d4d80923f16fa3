; arm.conv version 2 on arm-neon
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; products=c8, tile_columns=3, tile_channels=32, outer=weights, unroll=9
; all code: 1939 lines, sha256 a3b4e13bd386f7162510651bb37aaa979d000218becb8b2e4d4f9045194fc723
; inner loop: 400 instructions, 216 products, 19 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 smull v0.8h, v1.8b, v2.8b
 ldp x0, x1, [x2, #-8]
 smlal2 v3.8h, v4.16b, v5.16b
 sadalp v6.4s, v7.8h
 smull v8.8h, v1.8b, v5.8b
 smlal2 v9.8h, v1.16b, v10.16b
 sadalp v11.4s, v12.8h
 smull v13.8h, v14.8b, v10.8b
 smlal2 v0.8h, v1.16b, v2.16b
 sadalp v15.4s, v3.8h
 add x3, x4, #16
 add x5, x6, #64
 add x7, x4, #32
 add x8, x6, #128
 add x9, x4, #256
 add x10, x6, #192
 add x11, x4, #272
 add x12, x6, #256
 add x13, x4, #288
 add x14, x6, #320
 add x15, x4, #512
 add x16, x6, #384
 add x17, x4, #528
 add x18, x6, #448
 add x19, x4, #544
 add x20, x6, #512
 add x4, x0, x21
 add x6, x1, x22
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 //APP
 //NO_APP
 ld1 { v7.16b, v12.16b, v3.16b }, [x3]
 smull v16.8h, v14.8b, v2.8b
 smlal2 v8.8h, v1.16b, v5.16b
 sadalp v17.4s, v9.8h
 smull v9.8h, v14.8b, v5.8b
 smlal2 v13.8h, v14.16b, v10.16b
 sadalp v18.4s, v0.8h
 smull v0.8h, v19.8b, v10.8b
 smlal2 v16.8h, v14.16b, v2.16b
 sadalp v20.4s, v8.8h
 ld1 { v21.16b, v22.16b, v23.16b, v24.16b }, [x5]
 smull v8.8h, v19.8b, v2.8b
 smlal2 v9.8h, v14.16b, v5.16b
 sadalp v25.4s, v13.8h
 smull v13.8h, v19.8b, v5.8b
 smlal2 v0.8h, v19.16b, v10.16b
 sadalp v26.4s, v16.8h
 smull v16.8h, v21.8b, v7.8b
 smlal2 v8.8h, v19.16b, v2.16b
 sadalp v27.4s, v9.8h
 smull v9.8h, v21.8b, v12.8b
 smlal2 v13.8h, v19.16b, v5.16b
 sadalp v28.4s, v0.8h
 smull v0.8h, v21.8b, v3.8b
 smlal2 v16.8h, v21.16b, v7.16b
 sadalp v29.4s, v8.8h
 smull v8.8h, v22.8b, v7.8b
 smlal2 v9.8h, v21.16b, v12.16b
 sadalp v30.4s, v13.8h
 smull v13.8h, v22.8b, v12.8b
 smlal2 v0.8h, v21.16b, v3.16b
 sadalp v6.4s, v16.8h
 smull v4.8h, v22.8b, v3.8b
 smlal2 v8.8h, v22.16b, v7.16b
 sadalp v11.4s, v9.8h
 smull v1.8h, v23.8b, v7.8b
 smlal2 v13.8h, v22.16b, v12.16b
 sadalp v15.4s, v0.8h
 ld1 { v10.16b, v2.16b, v5.16b }, [x7]
 smull v14.8h, v23.8b, v12.8b
 smlal2 v4.8h, v22.16b, v3.16b
 sadalp v17.4s, v8.8h
 smull v19.8h, v23.8b, v3.8b
 smlal2 v1.8h, v23.16b, v7.16b
 sadalp v18.4s, v13.8h
 smull v16.8h, v24.8b, v7.8b
 smlal2 v14.8h, v23.16b, v12.16b
 sadalp v20.4s, v4.8h
 ld1 { v9.16b, v13.16b, v0.16b, v8.16b }, [x8]
 smull v4.8h, v24.8b, v12.8b
 smlal2 v19.8h, v23.16b, v3.16b
 sadalp v25.4s, v1.8h
 smull v1.8h, v24.8b, v3.8b
 smlal2 v16.8h, v24.16b, v7.16b
 sadalp v26.4s, v14.8h
 smull v14.8h, v9.8b, v10.8b
 smlal2 v4.8h, v24.16b, v12.16b
 sadalp v27.4s, v19.8h
 smull v19.8h, v9.8b, v2.8b
 smlal2 v1.8h, v24.16b, v3.16b
 sadalp v28.4s, v16.8h
 smull v21.8h, v9.8b, v5.8b
 smlal2 v14.8h, v9.16b, v10.16b
 sadalp v29.4s, v4.8h
 smull v22.8h, v13.8b, v10.8b
 smlal2 v19.8h, v9.16b, v2.16b
 sadalp v30.4s, v1.8h
 smull v23.8h, v13.8b, v2.8b
 smlal2 v21.8h, v9.16b, v5.16b
 sadalp v6.4s, v14.8h
 smull v24.8h, v13.8b, v5.8b
 smlal2 v22.8h, v13.16b, v10.16b
 sadalp v11.4s, v19.8h
 smull v19.8h, v0.8b, v10.8b
 smlal2 v23.8h, v13.16b, v2.16b
 sadalp v15.4s, v21.8h
 ld1 { v4.16b, v1.16b, v14.16b }, [x9]
 smull v7.8h, v0.8b, v2.8b
 smlal2 v24.8h, v13.16b, v5.16b
 sadalp v17.4s, v22.8h
 smull v12.8h, v0.8b, v5.8b
 smlal2 v19.8h, v0.16b, v10.16b
 sadalp v18.4s, v23.8h
 smull v3.8h, v8.8b, v10.8b
 smlal2 v7.8h, v0.16b, v2.16b
 sadalp v20.4s, v24.8h
 ld1 { v21.16b, v22.16b, v23.16b, v24.16b }, [x10]
 smull v16.8h, v8.8b, v2.8b
 smlal2 v12.8h, v0.16b, v5.16b
 sadalp v25.4s, v19.8h
 smull v19.8h, v8.8b, v5.8b
 smlal2 v3.8h, v8.16b, v10.16b
 sadalp v26.4s, v7.8h
 smull v7.8h, v21.8b, v4.8b
 smlal2 v16.8h, v8.16b, v2.16b
 sadalp v27.4s, v12.8h
 smull v12.8h, v21.8b, v1.8b
 smlal2 v19.8h, v8.16b, v5.16b
 sadalp v28.4s, v3.8h
 smull v13.8h, v21.8b, v14.8b
 smlal2 v7.8h, v21.16b, v4.16b
 sadalp v29.4s, v16.8h
 smull v0.8h, v22.8b, v4.8b
 smlal2 v12.8h, v21.16b, v1.16b
 sadalp v30.4s, v19.8h
 smull v8.8h, v22.8b, v1.8b
 smlal2 v13.8h, v21.16b, v14.16b
 sadalp v6.4s, v7.8h
 smull v9.8h, v22.8b, v14.8b
 smlal2 v0.8h, v22.16b, v4.16b
 sadalp v11.4s, v12.8h
 smull v19.8h, v23.8b, v4.8b
 smlal2 v8.8h, v22.16b, v1.16b
 sadalp v15.4s, v13.8h
 ld1 { v10.16b, v2.16b, v5.16b }, [x11]
 smull v7.8h, v23.8b, v1.8b
 smlal2 v9.8h, v22.16b, v14.16b
 sadalp v17.4s, v0.8h
 smull v12.8h, v23.8b, v14.8b
 smlal2 v19.8h, v23.16b, v4.16b
 sadalp v18.4s, v8.8h
 smull v3.8h, v24.8b, v4.8b
 smlal2 v7.8h, v23.16b, v1.16b
 sadalp v20.4s, v9.8h
 ld1 { v9.16b, v13.16b, v0.16b, v8.16b }, [x12]
 smull v16.8h, v24.8b, v1.8b
 smlal2 v12.8h, v23.16b, v14.16b
 sadalp v25.4s, v19.8h
 smull v19.8h, v24.8b, v14.8b
 smlal2 v3.8h, v24.16b, v4.16b
 sadalp v26.4s, v7.8h
 smull v7.8h, v9.8b, v10.8b
 smlal2 v16.8h, v24.16b, v1.16b
 sadalp v27.4s, v12.8h
 smull v12.8h, v9.8b, v2.8b
 smlal2 v19.8h, v24.16b, v14.16b
 sadalp v28.4s, v3.8h
 smull v21.8h, v9.8b, v5.8b
 smlal2 v7.8h, v9.16b, v10.16b
 sadalp v29.4s, v16.8h
 smull v22.8h, v13.8b, v10.8b
 smlal2 v12.8h, v9.16b, v2.16b
 sadalp v30.4s, v19.8h
 smull v23.8h, v13.8b, v2.8b
 smlal2 v21.8h, v9.16b, v5.16b
 sadalp v6.4s, v7.8h
 smull v24.8h, v13.8b, v5.8b
 smlal2 v22.8h, v13.16b, v10.16b
 sadalp v11.4s, v12.8h
 smull v19.8h, v0.8b, v10.8b
 smlal2 v23.8h, v13.16b, v2.16b
 sadalp v15.4s, v21.8h
 ld1 { v4.16b, v1.16b, v14.16b }, [x13]
 smull v7.8h, v0.8b, v2.8b
 smlal2 v24.8h, v13.16b, v5.16b
 sadalp v17.4s, v22.8h
 smull v12.8h, v0.8b, v5.8b
 smlal2 v19.8h, v0.16b, v10.16b
 sadalp v18.4s, v23.8h
 smull v3.8h, v8.8b, v10.8b
 smlal2 v7.8h, v0.16b, v2.16b
 sadalp v20.4s, v24.8h
 ld1 { v21.16b, v22.16b, v23.16b, v24.16b }, [x14]
 smull v16.8h, v8.8b, v2.8b
 smlal2 v12.8h, v0.16b, v5.16b
 sadalp v25.4s, v19.8h
 smull v19.8h, v8.8b, v5.8b
 smlal2 v3.8h, v8.16b, v10.16b
 sadalp v26.4s, v7.8h
 smull v7.8h, v21.8b, v4.8b
 smlal2 v16.8h, v8.16b, v2.16b
 sadalp v27.4s, v12.8h
 smull v12.8h, v21.8b, v1.8b
 smlal2 v19.8h, v8.16b, v5.16b
 sadalp v28.4s, v3.8h
 smull v13.8h, v21.8b, v14.8b
 smlal2 v7.8h, v21.16b, v4.16b
 sadalp v29.4s, v16.8h
 smull v0.8h, v22.8b, v4.8b
 smlal2 v12.8h, v21.16b, v1.16b
 sadalp v30.4s, v19.8h
 smull v8.8h, v22.8b, v1.8b
 smlal2 v13.8h, v21.16b, v14.16b
 sadalp v6.4s, v7.8h
 smull v9.8h, v22.8b, v14.8b
 smlal2 v0.8h, v22.16b, v4.16b
 sadalp v11.4s, v12.8h
 smull v19.8h, v23.8b, v4.8b
 smlal2 v8.8h, v22.16b, v1.16b
 sadalp v15.4s, v13.8h
 ld1 { v10.16b, v2.16b, v5.16b }, [x15]
 smull v7.8h, v23.8b, v1.8b
 smlal2 v9.8h, v22.16b, v14.16b
 sadalp v17.4s, v0.8h
 smull v12.8h, v23.8b, v14.8b
 smlal2 v19.8h, v23.16b, v4.16b
 sadalp v18.4s, v8.8h
 smull v3.8h, v24.8b, v4.8b
 smlal2 v7.8h, v23.16b, v1.16b
 sadalp v20.4s, v9.8h
 ld1 { v9.16b, v13.16b, v0.16b, v8.16b }, [x16]
 smull v16.8h, v24.8b, v1.8b
 smlal2 v12.8h, v23.16b, v14.16b
 sadalp v25.4s, v19.8h
 smull v19.8h, v24.8b, v14.8b
 smlal2 v3.8h, v24.16b, v4.16b
 sadalp v26.4s, v7.8h
 smull v7.8h, v9.8b, v10.8b
 smlal2 v16.8h, v24.16b, v1.16b
 sadalp v27.4s, v12.8h
 smull v12.8h, v9.8b, v2.8b
 smlal2 v19.8h, v24.16b, v14.16b
 sadalp v28.4s, v3.8h
 smull v21.8h, v9.8b, v5.8b
 smlal2 v7.8h, v9.16b, v10.16b
 sadalp v29.4s, v16.8h
 smull v22.8h, v13.8b, v10.8b
 smlal2 v12.8h, v9.16b, v2.16b
 sadalp v30.4s, v19.8h
 smull v23.8h, v13.8b, v2.8b
 smlal2 v21.8h, v9.16b, v5.16b
 sadalp v6.4s, v7.8h
 smull v24.8h, v13.8b, v5.8b
 smlal2 v22.8h, v13.16b, v10.16b
 sadalp v11.4s, v12.8h
 smull v16.8h, v0.8b, v10.8b
 smlal2 v23.8h, v13.16b, v2.16b
 sadalp v15.4s, v21.8h
 ld1 { v4.16b, v1.16b, v14.16b }, [x17]
 smull v21.8h, v0.8b, v2.8b
 smlal2 v24.8h, v13.16b, v5.16b
 sadalp v17.4s, v22.8h
 smull v22.8h, v0.8b, v5.8b
 smlal2 v16.8h, v0.16b, v10.16b
 sadalp v18.4s, v23.8h
 smull v23.8h, v8.8b, v10.8b
 smlal2 v21.8h, v0.16b, v2.16b
 sadalp v20.4s, v24.8h
 ld1 { v19.16b, v7.16b, v12.16b, v3.16b }, [x18]
 smull v24.8h, v8.8b, v2.8b
 smlal2 v22.8h, v0.16b, v5.16b
 sadalp v25.4s, v16.8h
 smull v16.8h, v8.8b, v5.8b
 smlal2 v23.8h, v8.16b, v10.16b
 sadalp v26.4s, v21.8h
 smull v21.8h, v19.8b, v4.8b
 smlal2 v24.8h, v8.16b, v2.16b
 sadalp v27.4s, v22.8h
 smull v22.8h, v19.8b, v1.8b
 smlal2 v16.8h, v8.16b, v5.16b
 sadalp v28.4s, v23.8h
 smull v13.8h, v19.8b, v14.8b
 smlal2 v21.8h, v19.16b, v4.16b
 sadalp v29.4s, v24.8h
 smull v0.8h, v7.8b, v4.8b
 smlal2 v22.8h, v19.16b, v1.16b
 sadalp v30.4s, v16.8h
 smull v8.8h, v7.8b, v1.8b
 smlal2 v13.8h, v19.16b, v14.16b
 sadalp v6.4s, v21.8h
 smull v24.8h, v7.8b, v14.8b
 smlal2 v0.8h, v7.16b, v4.16b
 sadalp v11.4s, v22.8h
 smull v10.8h, v12.8b, v4.8b
 smlal2 v8.8h, v7.16b, v1.16b
 sadalp v15.4s, v13.8h
 ld1 { v21.16b, v22.16b, v23.16b }, [x19]
 smull v2.8h, v12.8b, v1.8b
 smlal2 v24.8h, v7.16b, v14.16b
 sadalp v17.4s, v0.8h
 smull v5.8h, v12.8b, v14.8b
 smlal2 v10.8h, v12.16b, v4.16b
 sadalp v18.4s, v8.8h
 smull v16.8h, v3.8b, v4.8b
 smlal2 v2.8h, v12.16b, v1.16b
 sadalp v20.4s, v24.8h
 ld1 { v9.16b, v13.16b, v0.16b, v8.16b }, [x20]
 smull v24.8h, v3.8b, v1.8b
 smlal2 v5.8h, v12.16b, v14.16b
 sadalp v25.4s, v10.8h
 smull v10.8h, v3.8b, v14.8b
 smlal2 v16.8h, v3.16b, v4.16b
 sadalp v26.4s, v2.8h
 smull v2.8h, v9.8b, v21.8b
 smlal2 v24.8h, v3.16b, v1.16b
 sadalp v27.4s, v5.8h
 smull v5.8h, v9.8b, v22.8b
 smlal2 v10.8h, v3.16b, v14.16b
 sadalp v28.4s, v16.8h
 smull v4.8h, v9.8b, v23.8b
 smlal2 v2.8h, v9.16b, v21.16b
 sadalp v29.4s, v24.8h
 smull v24.8h, v13.8b, v21.8b
 smlal2 v5.8h, v9.16b, v22.16b
 sadalp v30.4s, v10.8h
 smull v1.8h, v13.8b, v22.8b
 smlal2 v4.8h, v9.16b, v23.16b
 sadalp v6.4s, v2.8h
 smull v14.8h, v13.8b, v23.8b
 smlal2 v24.8h, v13.16b, v21.16b
 sadalp v11.4s, v5.8h
 smull v7.8h, v0.8b, v21.8b
 smlal2 v1.8h, v13.16b, v22.16b
 sadalp v15.4s, v4.8h
 ld1 { v10.16b, v2.16b, v5.16b }, [x4]
 smull v12.8h, v0.8b, v22.8b
 smlal2 v14.8h, v13.16b, v23.16b
 sadalp v17.4s, v24.8h
 smull v24.8h, v0.8b, v23.8b
 smlal2 v7.8h, v0.16b, v21.16b
 sadalp v18.4s, v1.8h
 smull v3.8h, v8.8b, v21.8b
 smlal2 v12.8h, v0.16b, v22.16b
 sadalp v20.4s, v14.8h
 ld1 { v4.16b, v1.16b, v14.16b, v19.16b }, [x6]
 smull v16.8h, v8.8b, v22.8b
 smlal2 v24.8h, v0.16b, v23.16b
 sadalp v25.4s, v7.8h
 smull v31.8h, v8.8b, v23.8b
 smlal2 v3.8h, v8.16b, v21.16b
 sadalp v26.4s, v12.8h
 smull v7.8h, v4.8b, v10.8b
 smlal2 v16.8h, v8.16b, v22.16b
 sadalp v27.4s, v24.8h
 smull v12.8h, v4.8b, v2.8b
 smlal2 v31.8h, v8.16b, v23.16b
 sadalp v28.4s, v3.8h
 smull v3.8h, v4.8b, v5.8b
 smlal2 v7.8h, v4.16b, v10.16b
 sadalp v29.4s, v16.8h
 smull v9.8h, v1.8b, v10.8b
 smlal2 v12.8h, v4.16b, v2.16b
 sadalp v30.4s, v31.8h
 subs x23, x23, #1
 add x2, x2, #16
 b.ne L0
