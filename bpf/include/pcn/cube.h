// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Everything that a cube's program includes. */
#ifndef PCN_CUBE_H
#define PCN_CUBE_H

#include <pcn/ctx.h>
#include <pcn/md.h>
#include <pcn/map.h>
#include <pcn/counter.h>
#include <pcn/config.h>
#include <pcn/verdict.h>
#include <pcn/log.h>
#include <pcn/notify.h>
#include <pcn/packet.h>
#include <pcn/time.h>
#include <pcn/address.h>
#include <pcn/vlan.h>
#include <pcn/csum.h>
#include <pcn/ip.h>
#include <pcn/names.h>

#endif
