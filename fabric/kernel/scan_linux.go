package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// marked is a namespace file and its mark; lab is empty when it has none.
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
func isNamespace(path string) bool { return ns.IsNSorErr(path) == nil }

// readMark enters a namespace file with the calling thread, which must be
// onThread's, and reads the mark. Files that are no network namespaces have none.
func readMark(path string) (marked, error) {
	none := marked{name: filepath.Base(path)}
	if !isNamespace(path) {
		return none, nil
	}
	h, err := netns.GetFromPath(path)
	if errors.Is(err, unix.ENOENT) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = h.Close() }()
	return readMarkOf(h, path)
}

func readMarkOf(h netns.NsHandle, path string) (marked, error) {
	none := marked{name: filepath.Base(path)}
	if err := netns.Set(h); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return none, nil // a namespace of another type
		}
		return none, fmt.Errorf("enter %s: %w", path, err)
	}
	alias, err := loAlias()
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	m := parseMark(filepath.Base(path), alias)
	m.inode, err = inodeOf(h, m.name)
	return m, err
}

// loAlias reads the alias of the loopback interface in the calling thread's namespace.
func loAlias() (string, error) {
	lo, err := netlink.LinkByIndex(loIndex)
	if err != nil {
		return "", fmt.Errorf("read the alias of lo: %w", err)
	}
	return lo.Attrs().Alias, nil
}

// scan reads the marks of all named namespaces, sorted by name. Those that
// cannot be read are left out, because nothing shows that they are ours.
func scan() ([]marked, error) {
	entries, err := os.ReadDir(NetnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	if len(entries) == 0 {
		return nil, nil // this needs no rights
	}
	var found []marked
	err = onThread(func() error {
		for _, e := range entries {
			if m, err := readMark(filepath.Join(NetnsDir, e.Name())); err == nil && m.lab != "" {
				found = append(found, m)
			}
		}
		return nil
	})
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w (this needs root)", err)
	}
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
