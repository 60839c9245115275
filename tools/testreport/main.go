// Command testreport selects the packages of each test lane and reports on the output of `go
// test -json`. Only scripts/test.sh uses it.
//
//	testreport select [-go CMD] unit|kernel|timing|e2e     in the folder of a module
//	testreport watch [-append FILE] [-lane NAME]           < events
//	testreport report [-allow FILE] [-must FILE] FILE...
//
// A successful run must mean that something was tested. So the report counts passed, failed and
// skipped tests, prints every reason for skipping, and fails when no test ran. With CI=true it
// also fails when a skip has no line in the allow file, or when a test in the must file did not
// pass, was skipped or is missing. It also prints the time of each lane, including builds, and
// the slowest tests.
//
// Start reading at select.go for the lanes and at tally.go for the counting.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

var (
	errUsage    = errors.New("usage: testreport select|watch|report (see the package comment)")
	errUnproven = errors.New("the tests do not prove what they should")
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout, os.Getenv("CI") == "true")
	switch {
	case err == nil:
	case errors.Is(err, errUnproven):
		os.Exit(1) // the details are already printed
	default:
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
}

// run is main without the process; strict is set in CI.
func run(args []string, stdin io.Reader, stdout io.Writer, strict bool) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	goCmd := flags.String("go", "go", "the go command")
	appendTo := flags.String("append", "", "append the events to this file")
	lane := flags.String("lane", "", "whose events these are: its time is kept with them")
	allow := flags.String("allow", "", "file of reasons to skip that are known and accepted")
	must := flags.String("must", "", "file of tests that must have passed")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "select":
		if flags.NArg() != 1 {
			return errUsage
		}
		lines, err := selectLane(*goCmd, flags.Arg(0))
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(stdout, strings.Join(lines, ""))
		return err
	case "watch":
		return watch(stdin, stdout, *appendTo, *lane)
	case "report":
		return reportFiles(stdout, flags.Args(), *allow, *must, strict)
	}
	return errUsage
}

// watch prints the package lines and the output of failing tests as they come.
func watch(events io.Reader, stdout io.Writer, appendTo, lane string) error {
	begun := time.Now()
	keep := io.Discard
	if appendTo != "" {
		f, err := os.OpenFile(appendTo, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // after a lost write some tests would seem never to end
		keep = f
	}
	tally := newTally()
	tally.live = stdout
	if err := tally.read(io.TeeReader(events, keep)); err != nil {
		return err
	}
	if lane != "" {
		if err := json.NewEncoder(keep).Encode(event{Action: laneEnded, Output: lane, Elapsed: time.Since(begun).Seconds()}); err != nil {
			return err
		}
	}
	if tally.count(failed) > 0 {
		return errUnproven
	}
	return nil
}

// reportFiles prints the summary of all lanes; its last line is the count.
func reportFiles(stdout io.Writer, files []string, allow, must string, strict bool) error {
	tally := newTally()
	for _, name := range files {
		if err := readInto(tally, name); err != nil {
			return err
		}
	}
	rules, err := loadRules(allow, must)
	if err != nil {
		return err
	}
	problems := rules.check(tally)
	printTimes(stdout, tally)
	printSkips(stdout, tally)
	for _, problem := range problems {
		if strict {
			problem = "ERROR: " + problem
		}
		if _, err := fmt.Fprintln(stdout, problem); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n",
		tally.count(passed), tally.count(failed), tally.count(skipped)); err != nil {
		return err
	}
	if tally.count(failed) > 0 || tally.count(passed) == 0 || strict && len(problems) > 0 {
		return errUnproven
	}
	return nil
}

func readInto(t *tally, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return t.read(f)
}
