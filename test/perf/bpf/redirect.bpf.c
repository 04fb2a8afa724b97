// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A minimal plain eBPF forwarder: everything that comes in leaves through the only other interface.
 * */
#include <pcn/ctx.h>
#include <pcn/map.h>

#ifdef PCN_TC
const volatile __u32 out_ifindex = 0;

SEC("tc") int forward(struct __sk_buff *ctx)
{
	(void)ctx;
	return bpf_redirect(out_ifindex, 0);
}
#else
PCN_MAP(devices, BPF_MAP_TYPE_DEVMAP, __u32, __u32, 1);

SEC("xdp") int forward(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_redirect_map(&devices, 0, XDP_DROP);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
