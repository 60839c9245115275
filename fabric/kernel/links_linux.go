package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// linkInfo is an interface as the kernel reports it.
type linkInfo struct {
	index, flags uint32
	name         string
	mtu          uint32
	operState    uint8
	gsoMaxSegs   uint32
	hardware     string // raw bytes
}

func dumpLinks(c *rtnl.Conn) (links []linkInfo, err error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETLINK, 0, "list", "links")
	ifinfo(&b, 0, 0)
	err = c.Dump(&b, func() { links = nil }, func(m rtnl.Message) {
		links = append(links, parseLink(m.Payload))
	})
	return links, err
}

func parseLink(p []byte) linkInfo {
	l := linkInfo{index: rtnl.U32(p, 4), flags: rtnl.U32(p, 8)}
	rtnl.Attrs(rtnl.Skip(p, unix.SizeofIfInfomsg), func(typ uint16, v []byte) {
		switch typ {
		case unix.IFLA_IFNAME:
			l.name = rtnl.String(v)
		case unix.IFLA_MTU:
			l.mtu = rtnl.U32(v, 0)
		case unix.IFLA_OPERSTATE:
			l.operState = v[0]
		case unix.IFLA_GSO_MAX_SEGS:
			l.gsoMaxSegs = rtnl.U32(v, 0)
		case unix.IFLA_ADDRESS:
			l.hardware = string(v)
		}
	})
	return l
}

// carries reports whether an interface can send.
func (l *linkInfo) carries() bool { return l.flags&unix.IFF_RUNNING != 0 && l.operState == operUp }
