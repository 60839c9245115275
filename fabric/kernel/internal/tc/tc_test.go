//go:build linux

package tc

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// readBack writes a tree and reads the messages as if the kernel had sent them.
func readBack(tree Tree) (back Tree) {
	var b rtnl.Batch
	tree.Add(&b, 7, "up0")
	b.Requests(func(typ uint16, payload []byte) {
		m := Parse(payload)
		if o, ok := m.Object(Type(typ)); ok && m.Ifindex == 7 {
			back = append(back, o)
		}
	})
	return back
}

// everyKind is one object of each kind.
var everyKind = Tree{
	{Parent: Root, Handle: 0x20000, Options: Netem{Delay: 4e6, Limit: 1000, Loss: 1, Gap: 2, Duplicate: 3, Jitter: 4}},
	{Parent: 0x20001, Handle: 0x10000, Options: HTB{Default: 0x30, Direct: 5}},
	{Parent: 0x10000, Handle: 0x10001, Options: HTBClass{
		Rate: Bucket{Rate: 625_000, Bytes: 6056}, Ceil: Bucket{Rate: 450e9, Bytes: 9e7}, Quantum: 3028, Prio: 2,
	}},
	{Parent: 0x10000, Options: DSCP(10, 0x10001)},
	{Parent: 0x10000, Options: BPF{Program: "12345678abcdefgh"}},
	{Parent: 0x10001, Handle: 0x100000, Options: TBF{Bucket: Bucket{Rate: 15_625_000, Bytes: 12112}, Limit: 65536}},
	{Parent: 0x100001, Handle: 0x400000, Options: RED{Limit: 65536, MarkFrom: 30000, MarkAll: 30280, Averaging: 1, Flags: REDMarks | REDNoDrop}},
	{Parent: 0x400001, Options: FIFO{Limit: 9000}},
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	require.Len(t, everyKind, len(kinds), "one of each")
	back := readBack(everyKind)
	require.Len(t, back, len(everyKind))
	assert.Empty(t, back.Diff(everyKind))
	assert.Empty(t, everyKind.Diff(back))
	for i := range back { // a bucket's depth is rounded
		switch back[i].Options.(type) {
		case TBF, HTBClass:
		default:
			assert.Equal(t, everyKind[i], back[i])
		}
	}
}

// settings calls fn for each number or text inside a value.
func settings(v reflect.Value, name string, fn func(name string, field reflect.Value)) {
	if v.Kind() != reflect.Struct {
		fn(name, v)
		return
	}
	for i := range v.NumField() {
		settings(v.Field(i), name+"."+v.Type().Field(i).Name, fn)
	}
}

// A field that is in a kind but not in its layout would be neither set nor checked.
func TestEveryFieldIsWrittenReadAndCompared(t *testing.T) {
	t.Parallel()
	for at, o := range everyKind {
		value := reflect.New(reflect.TypeOf(o.Options)).Elem()
		value.Set(reflect.ValueOf(o.Options))
		tried := 0
		settings(value, value.Type().Name(), func(name string, field reflect.Value) {
			tried++
			before := reflect.ValueOf(field.Interface())
			switch field.Kind() {
			case reflect.String:
				field.SetString(field.String()[1:] + "!")
			case reflect.Int32, reflect.Int64:
				field.SetInt(field.Int() + 4)
			case reflect.Float64:
				field.SetFloat(field.Float() + 1e6)
			default:
				field.SetUint(field.Uint() + 4)
			}
			changed := append(Tree{}, everyKind...)
			changed[at].Options = value.Interface().(Options)
			field.Set(before)
			got := readBack(changed)
			assert.Empty(t, got.Diff(changed), name)
			assert.NotEmpty(t, got.Diff(everyKind), name)
			assert.NotEmpty(t, everyKind.Diff(got), name)
		})
		assert.Positive(t, tried)
	}
}

// port is a tree with objects of several kinds, near the limits of their fields.
func port(limit uint32) Tree {
	bucket := Bucket{Rate: 15_625_000, Bytes: 12112}
	t := Tree{
		{Parent: Root, Handle: 0x10000, Options: HTB{Default: 0x30}},
		{Parent: 0x10000, Handle: 0x10001, Options: HTBClass{Rate: bucket, Ceil: bucket}},
		{Parent: 0x10000, Options: DSCP(10, 0x10010)},
	}
	for minor := Handle(0x10); minor < 0x16; minor++ {
		t = append(t,
			Object{Parent: 0x10001, Handle: 0x10000 | minor, Options: HTBClass{Rate: bucket, Ceil: bucket}},
			Object{Parent: 0x10000 | minor, Handle: minor << 16, Options: FIFO{Limit: limit}})
	}
	return t
}

func TestDifferencesNameObjectFieldGotAndWant(t *testing.T) {
	t.Parallel()
	set := func(at int, o Options) func(Tree) Tree {
		return func(t Tree) Tree {
			t[at].Options = o
			return t
		}
	}
	for _, tc := range []struct {
		name string
		do   func(Tree) Tree
		want []string
	}{
		{"nothing", func(t Tree) Tree { return t }, nil},
		{"all gone", func(Tree) Tree { return nil }, []string{"root qdisc none, want htb"}},
		{
			"another root hides what hangs below it",
			func(Tree) Tree {
				return Tree{{Parent: Root, Handle: 0x80010000, Options: Other{Qdisc, "noqueue"}}, {Parent: 0x80010000, Handle: 0x80010001, Options: HTBClass{}}}
			},
			[]string{"root qdisc noqueue, want htb"},
		},
		{"another handle", func(t Tree) Tree {
			t[0].Handle = 0x80010000
			return t
		}, []string{"htb handle 8001:, want 1:"}},
		{"a default class", set(0, HTB{Default: 0x20}), []string{"htb default class 0x20, want 0x30"}},
		{"packets that no class had", set(0, HTB{Default: 0x30, Direct: 7}), []string{"htb packets past the classes, unshaped: 7, want 0"}},
		{
			"a rate, which says nothing of depths",
			set(1, HTBClass{Rate: Bucket{Rate: 125_000, Bytes: 12112}, Ceil: Bucket{Rate: 15_625_000, Bytes: 12200}}),
			[]string{"htb class 1:1 rate 1000000 bit/s, want 125000000", "htb class 1:1 cburst 12200 bytes, want 12112"},
		},
		{"a tick is the kernel's", set(1, HTBClass{Rate: Bucket{Rate: 15_625_000, Bytes: 12111}, Ceil: Bucket{Rate: 15_625_000, Bytes: 12113}}), nil},
		{
			"two ticks are not",
			set(1, HTBClass{Rate: Bucket{Rate: 15_625_000, Bytes: 12110}, Ceil: Bucket{Rate: 15_625_000, Bytes: 12112}}),
			[]string{"htb class 1:1 burst 12110 bytes, want 12112"},
		},
		{"a filter elsewhere", set(2, DSCP(10, 0x10011)), []string{"u32 filter of dscp 10 to class 1:10 is missing", "u32 filter of dscp 10 to class 1:11 is not planned"}},
		{"a filter of more", set(2, U32{Class: 0x10010, Value: nl.Swap32(1), Mask: nl.Swap32(3), Offset: 4, Keys: 2}), []string{
			"u32 filter of dscp 10 to class 1:10 is missing", "u32 filter of 2 keys, first 00000001/00000003 at 4, to class 1:10 is not planned",
		}},
		{"a foreign filter", func(t Tree) Tree {
			return append(t, Object{Parent: 0x10000, Options: Other{Filter, "flower"}})
		}, []string{"flower filter of a kind that no plan has is not planned"}},
		{"a queue", set(4, FIFO{Limit: 1000}), []string{"bfifo of class 1:10 limit 1000 bytes, want 65536"}},
		{"a queue of another kind", set(4, Other{Qdisc, "pfifo"}), []string{"qdisc of class 1:10 pfifo, want bfifo"}},
		{"a class too many", func(t Tree) Tree {
			return append(t, Object{Parent: 0x10001, Handle: 0x10040, Options: HTBClass{}}, Object{Parent: 0x10040, Options: FIFO{}})
		}, []string{"htb class 1:40 is not planned", "qdisc of class 1:40 bfifo, want none"}},
		{"a class less, and its queue", func(t Tree) Tree { return append(t[:3], t[5:]...) }, []string{"htb class 1:10 is missing"}},
		{"a class elsewhere", func(t Tree) Tree {
			t[3].Parent = 0x10000
			return t
		}, []string{"htb class 1:10 parent 1:, want 1:1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, tc.do(port(65536)).Diff(port(65536)))
		})
	}
}

func TestManyEqualDifferencesAreOneAndACount(t *testing.T) {
	t.Parallel()
	got := port(1000).Diff(port(65536))
	require.Len(t, got, 1)
	assert.Equal(t, "bfifo of class 1:10 and 5 more limit 1000 bytes, want 65536", got[0])
	three := append(port(65536)[:9:9], port(1000)[9:]...)
	assert.Len(t, three.Diff(port(65536)), 3, "a few are named")
}

func TestDepthsAreTicksRoundedUp(t *testing.T) {
	t.Parallel()
	for _, rate := range []uint64{1, 625_000, 15_625_000, 3_125_000_000, 450e9} {
		for _, bytes := range []float64{1514, 12112, 90_000_001} {
			b := Bucket{Rate: rate, Bytes: bytes}
			if back := (Bucket{Rate: rate, Bytes: float64(b.Ticks()) * TickNanoseconds * float64(rate) / 1e9}); rate > 1 {
				assert.Equal(t, b.Ticks(), back.Ticks(), "%v", b)
				assert.InDelta(t, bytes, back.Bytes, TickNanoseconds*float64(rate)/1e9, "%v", b)
			}
		}
	}
	assert.EqualValues(t, 12112, Bucket{Rate: 15_625_000, Bytes: 12112}.Ticks(), "a byte a tick")
	assert.EqualValues(t, 12113, Bucket{Rate: 15_625_000, Bytes: 12112.5}.Ticks())
	assert.EqualValues(t, 1<<32-1, Bucket{Rate: 1, Bytes: 1514}.Ticks(), "the field's limit")
}

func TestHandles(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "root 1: 1:10 8001:ffff", fmt.Sprint(Root, Handle(0x10000), Handle(0x10010), Handle(0x8001ffff)))
	assert.Equal(t, Handle(0x10000), Handle(0x10010).Qdisc())
}

// An entry that the kernel lists but no request made is not an object.
func TestHeadsOfListsAreNoFilters(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(b *rtnl.Batch){
		"an empty head": func(*rtnl.Batch) {},
		"a hash table":  func(b *rtnl.Batch) { b.AttrU32(nl.TCA_U32_DIVISOR, 1) },
	} {
		var b rtnl.Batch
		b.Begin(unix.RTM_NEWTFILTER, 0, "", "")
		rtnl.Put(&b, nl.TcMsg{Parent: 0x10000})
		b.AttrString(nl.TCA_KIND, "u32")
		b.Nest(nl.TCA_OPTIONS)
		options(&b)
		b.Requests(func(typ uint16, payload []byte) {
			m := Parse(payload)
			_, ok := m.Object(Filter)
			assert.False(t, ok, name)
		})
	}
}

// FuzzRead: for all bytes, reading ends, and the tree that was read equals itself.
func FuzzRead(f *testing.F) {
	var b rtnl.Batch
	everyKind.Add(&b, 7, "up0")
	b.Requests(func(_ uint16, payload []byte) { f.Add(payload) })
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		var tree Tree
		for _, typ := range []Type{Qdisc, Class, Filter} {
			m := Parse(payload)
			if o, ok := m.Object(typ); ok {
				tree = append(tree, o)
			}
		}
		assert.Empty(t, tree.Diff(tree))
		for _, d := range append(tree.Diff(everyKind), everyKind.Diff(tree)...) {
			assert.NotEmpty(t, d)
		}
	})
}
