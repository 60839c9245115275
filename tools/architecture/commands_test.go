package architecture

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryCommandThatIsCalledIsListed: all commands that scripts and tests call exist on a new
// machine, since scripts/deps.sh installs the listed ones.
func TestEveryCommandThatIsCalledIsListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(top, CommandsFile))
	require.NoError(t, err)
	list, err := ParseCommands(string(text))
	require.NoError(t, err)
	uses, err := FindCommands(os.DirFS(top))
	require.NoError(t, err)
	for _, fault := range CheckCommands(list, uses) {
		t.Error(fault)
	}
}

func TestFindCommands(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, tt := range map[string]struct {
		file, text string
		want       []string
	}{
		"os/exec by literal, constant and path": {"a/a.go", `package a
			const tool = "one"
			func f() { exec.Command(tool, "x"); exec.CommandContext(ctx, "two"); exec.LookPath("three"); exec.Command("/bin/four"); exec.Command("./ours"); exec.Command(os.Args[0]) }`,
			[]string{"four", "one", "three", "two"}},
		"generators": {"a/a.go", "package a\n\n//go:generate one -x\n", []string{"one"}},
		"functions that hand their parameters on": {"a/a_test.go", `package a
			func run(t *testing.T, name string, args ...string) { exec.Command(name, args...) }
			func must(t *testing.T, args ...string) { exec.Command("sudo", append(x, args...)...) ; exec.Command(binary, args...) }
			func sh(t *testing.T, script string) { exec.CommandContext(ctx, "sh", "-c", script) }
			func in(t *testing.T, node, script string) { sh(t, "ip netns exec "+node+" "+script) }
			func f(t *testing.T) {
				again := func(script string) { in(t, "n", script) }
				run(t, "one", "x")
				sh(t, fmt.Sprintf("two %s | three", x))
				again("four -x")
				must(t, "exec", "LAB", "n0", "--", "five")
			}`, []string{"five", "four", "ip", "one", "sh", "sudo", "three", "two"}},
		"scripts": {"s/s.sh", `#!/usr/bin/env bash
			as_root() { if x; then "$@"; else sudo -n -- "$@"; fi; }
			has() { PATH=$PATH:/sbin command -v "$1" >/dev/null; }
			has one || as_root env A=b two "$(three)" | while read -r x; do four; done
			trap 'as_root five' EXIT
			"$tool" not-me; scripts/not-me.sh; ./not-me
			chroot "$root" /usr/bin/env -i X=y six; timeout -k 5 7 seven; unshare --propagation private -m bash -ec 'eight'
			: not-me # not-me`,
			[]string{"bash", "chroot", "eight", "env", "five", "four", "one", "seven", "six", "sudo", "three", "timeout", "two", "unshare", "x"}},
		"a script by its first line": {".ci/run", "#!/bin/sh\none\n", []string{"one", "sh"}},
		"a makefile": {"Makefile", "X := $(shell one --x)\nall: $(X) ## not-me\n\t@two $(if $(X),-a $(X)) && \\\n\t  three $$(four) $@\n\t-$(GO) not-me | five\n",
			[]string{"five", "four", "one", "three", "two"}},
		"what is no code":             {"notes.md", "```sh\nnot-me\n```\n", nil},
		"test data and what is built": {"bin/x.sh", "not-me\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uses, err := FindCommands(fstest.MapFS{tt.file: file(tt.text)})
			require.NoError(t, err)
			var got []string
			for command := range uses {
				got = append(got, command)
			}
			assert.ElementsMatch(t, tt.want, got)
		})
	}
	_, err := FindCommands(fstest.MapFS{"x.sh": file("if then")})
	require.Error(t, err)
}

func TestCheckCommands(t *testing.T) {
	t.Parallel()
	list, err := ParseCommands("# all\n\ncc gcc go\nip  iproute2\nnft nftables  # rules\nold x extra\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]Command{"cc": {"gcc", "go"}, "ip": {"iproute2", ""}, "nft": {"nftables", ""}, "old": {"x", "extra"}}, list)
	assert.Equal(t, []string{
		"old is listed in scripts/commands.txt but called nowhere",
		"tcpdump is called (a_test.go:7, b.sh:1) but not listed in scripts/commands.txt, so it may be missing on a fresh machine",
	}, CheckCommands(list, Uses{"ip": {"a.sh:1"}, "nft": {"a.sh:2"}, "tcpdump": {"a_test.go:7", "b.sh:1"}}))
	for text, want := range map[string]string{
		"ip\n":                "want a command",
		"ip iproute2 vm\n":    "none of docker, extra and go",
		"tc iproute2\nip x\n": "ip stands after tc",
	} {
		_, err := ParseCommands(text)
		require.ErrorContains(t, err, want)
	}
}
