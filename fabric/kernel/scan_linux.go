package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// nsfsMagic is the file system type of a namespace's file (linux/magic.h).
const nsfsMagic = 0x6e736673

// marked is a namespace file and what its mark says; lab is empty when it has none.
type marked struct {
	name          string
	lab, id, node string
	inode         uint64
}

// ours reports whether the mark belongs to the name: a namespace of ours that
// someone bound to a second name is not ours under that one.
func (m marked) ours(lab string) bool { return m.lab == lab && m.name == m.lab+"."+m.node }

// parseMark reads "netkvlab/LAB/ID/NODE".
func parseMark(name, alias string) marked {
	m := marked{name: name}
	rest, ok := strings.CutPrefix(alias, markPrefix)
	if parts := strings.Split(rest, "/"); ok && len(parts) == 3 {
		m.lab, m.id, m.node = parts[0], parts[1], parts[2]
	}
	return m
}

// isNamespace reports whether a path is a mounted namespace.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == nsfsMagic
}

// readMark enters a namespace file with the calling thread, which must be
// onThread's, and reads the mark. Files that are no network namespaces have none.
func readMark(path string) (marked, error) {
	none := marked{name: filepath.Base(path)}
	if !isNamespace(path) {
		return none, nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return readMarkFd(fd, path)
}

func readMarkFd(fd int, path string) (marked, error) {
	none := marked{name: filepath.Base(path)}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return none, nil // a namespace of another type
		}
		return none, fmt.Errorf("enter %s: %w", path, err)
	}
	c, err := rtnl.Open()
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = c.Close() }()
	alias, err := loAlias(c)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	m := parseMark(filepath.Base(path), alias)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return none, fmt.Errorf("stat %s: %w", path, err)
	}
	m.inode = st.Ino
	return m, nil
}

// loAlias reads the alias of a namespace's loopback interface.
func loAlias(c *rtnl.Conn) (alias string, err error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETLINK, 0, "read the alias of", "lo")
	ifinfo(&b, loIndex, 0)
	err = c.Query(&b, func(_ int, m rtnl.Message) {
		alias = rtnl.String(rtnl.Find(rtnl.Skip(m.Payload, unix.SizeofIfInfomsg), unix.IFLA_IFALIAS))
	})
	return alias, err
}

// scan reads the marks of all named namespaces, sorted by name. Those that
// cannot be read are left out: they are not ours as far as anyone can tell.
func scan() ([]marked, error) {
	entries, err := os.ReadDir(NetnsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var found []marked
	err = onThread(func() error {
		for _, e := range entries {
			m, err := readMark(filepath.Join(NetnsDir, e.Name()))
			if errors.Is(err, unix.EPERM) {
				return fmt.Errorf("%w (this needs root)", err)
			}
			if err == nil && m.lab != "" {
				found = append(found, m)
			}
		}
		return nil
	})
	return found, err
}

// Labs lists the labs that have at least one namespace, sorted.
func Labs() ([]string, error) {
	all, err := scan()
	labs := []string{}
	for _, m := range all {
		if m.ours(m.lab) {
			labs = append(labs, m.lab)
		}
	}
	slices.Sort(labs)
	return slices.Compact(labs), err
}

// Namespaces lists the namespaces that carry a lab's mark, sorted by name;
// empty when there are none.
func Namespaces(lab string) ([]Namespace, error) {
	if err := checkLab(lab); err != nil {
		return nil, err
	}
	all, err := scan()
	spaces := []Namespace{}
	for _, m := range all {
		if m.ours(lab) {
			spaces = append(spaces, Namespace{Name: m.name, Node: m.node, Path: filepath.Join(NetnsDir, m.name), Inode: m.inode})
		}
	}
	return spaces, err
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, 32) }
