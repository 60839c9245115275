//go:build linux

package rtnl

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBatchFramesRequests(t *testing.T) {
	t.Parallel()
	var b Batch
	b.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE, "create", "x")
	Put(&b, uint32(7))
	b.Nest(unix.IFLA_LINKINFO)
	b.AttrString(unix.IFLA_INFO_KIND, "veth")
	b.Begin(unix.RTM_GETLINK, 0, "read", "y") // closes the nest and the request before it
	b.Attr(1, []byte{9})
	b.finish()
	require.Len(t, b.ops, 2)
	length := binary.NativeEndian.Uint32(b.buf)
	assert.EqualValues(t, 16+4+4+12, length)
	assert.EqualValues(t, unix.NLM_F_CREATE|unix.NLM_F_REQUEST, binary.NativeEndian.Uint16(b.buf[6:]))
	nest := Find(b.buf[20:length], unix.IFLA_LINKINFO)
	assert.Equal(t, "veth", String(Find(nest, unix.IFLA_INFO_KIND)))
	second := b.buf[length:]
	assert.EqualValues(t, len(second), binary.NativeEndian.Uint32(second))
	assert.Equal(t, []byte{9}, Find(second[16:], 1))
	b.Reset()
	assert.Empty(t, b.ops)
}

func TestNextHopsNestLikeAttributes(t *testing.T) {
	t.Parallel()
	var b Batch
	b.Begin(unix.RTM_NEWROUTE, 0, "add", "route")
	b.Nest(unix.RTA_MULTIPATH)
	b.NextHop(3)
	b.Attr(unix.RTA_GATEWAY, []byte{10, 0, 0, 1})
	b.End()
	b.finish()
	hops := Find(b.buf[16:], unix.RTA_MULTIPATH)
	hop, attrs := Split[unix.RtNexthop](hops)
	assert.EqualValues(t, 16, hop.Len)
	assert.EqualValues(t, 3, hop.Ifindex)
	assert.Equal(t, []byte{10, 0, 0, 1}, Find(attrs, unix.RTA_GATEWAY))
}

func TestExecNamesEveryRefusedRequest(t *testing.T) {
	t.Parallel()
	c, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	var b Batch
	// Interfaces that do not exist: refused with and without rights.
	for i, name := range []string{"one", "two"} {
		b.Begin(unix.RTM_NEWLINK, 0, "raise", name)
		Put(&b, unix.IfInfomsg{Index: int32(1<<30 + i), Flags: unix.IFF_UP, Change: unix.IFF_UP})
	}
	err = c.Exec(&b)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "raise one: ")
	assert.Contains(t, err.Error(), "raise two: ")
	var errno syscall.Errno
	require.ErrorAs(t, err, &errno)
	assert.NotZero(t, errno)
}

func TestQueryAnswersInOrder(t *testing.T) {
	t.Parallel()
	c, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	const n = 100 // more than fits into one send
	var b Batch
	for range n {
		b.Begin(unix.RTM_GETLINK, 0, "read", "lo")
		Put(&b, unix.IfInfomsg{Index: 1})
	}
	var got []int
	require.NoError(t, c.Query(&b, func(i int, payload []byte) {
		got = append(got, i)
		assert.Equal(t, "lo", String(Find(payload[unix.SizeofIfInfomsg:], unix.IFLA_IFNAME)))
	}))
	require.Len(t, got, n)
	assert.IsIncreasing(t, got)
}

func TestDumpListsLoopback(t *testing.T) {
	t.Parallel()
	c, err := Open()
	require.NoError(t, err)
	var names []string
	dump := func() error {
		return c.Dump(unix.RTM_GETLINK, "links", Raw(&unix.IfInfomsg{}), func() { names = nil }, func(payload []byte) {
			names = append(names, String(Find(payload[unix.SizeofIfInfomsg:], unix.IFLA_IFNAME)))
		})
	}
	require.NoError(t, dump())
	assert.Contains(t, names, "lo")
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "closing twice is harmless")
	assert.ErrorIs(t, dump(), unix.EBADF)
	var b Batch
	b.Begin(unix.RTM_GETLINK, 0, "read", "links")
	assert.ErrorIs(t, c.Exec(&b), unix.EBADF)
}

func TestKernelTextIsKept(t *testing.T) {
	t.Parallel()
	payload := binary.NativeEndian.AppendUint32(nil, uint32(0xFFFFFFFF-uint32(unix.ENOENT)+1))
	payload = append(payload, make([]byte, unix.NLMSG_HDRLEN)...)
	var b Batch
	b.AttrString(unix.NLMSGERR_ATTR_MSG, "No such qdisc.")
	err := op{what: "add tbf to", object: "up0"}.refusal(unix.NlMsghdr{Flags: unix.NLM_F_ACK_TLVS | unix.NLM_F_CAPPED}, append(payload, b.buf...))
	assert.ErrorIs(t, err, unix.ENOENT)
	assert.EqualError(t, err, "add tbf to up0: no such file or directory (kernel: No such qdisc)")
	errno, _ := parseError(unix.NlMsghdr{}, []byte{1})
	assert.Equal(t, unix.EPROTO, errno)
}

// For all bytes, parsing ends and reads nothing outside them.
func FuzzParse(f *testing.F) {
	f.Add([]byte{8, 0, 1, 0, 1, 2, 3, 4}, uint16(1))
	f.Add([]byte{0, 0, 0, 0}, uint16(0))
	f.Add([]byte{255, 255, 1, 0}, uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, typ uint16) {
		total := 0
		Attrs(p, func(_ uint16, v []byte) { total += len(v) + 4 })
		if total > len(p) {
			t.Fatalf("%d bytes of attributes in %d", total, len(p))
		}
		v := Find(p, typ)
		_, _, _, _ = String(v), Get[uint16](v), Get[uint64](v), Next(v, len(v))
		_, _ = parseError(unix.NlMsghdr{Flags: unix.NLM_F_ACK_TLVS}, p)
		_, _ = parseError(unix.NlMsghdr{Flags: unix.NLM_F_ACK_TLVS | unix.NLM_F_CAPPED}, p)
	})
}
