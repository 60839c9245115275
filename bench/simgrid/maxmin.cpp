// The same flows as flowsim's benchmark in SimGrid's fluid model, for time and
// for answers. See README.md for the input and the output.
//
// SimGrid routes by host pair. Since here one pair uses several equal-cost
// paths, every distinct path gets a pair of hosts of its own; hosts are free of
// cost in the model, and building them is not timed.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

struct Flow {
  double start = 0;       // seconds
  double bytes = 0;       // payload
  std::vector<int> path;  // links
  sg::Host* from = nullptr;
  sg::Host* to = nullptr;
};

struct Instance {
  std::vector<double> capacity;  // bytes a second
  std::vector<Flow> flows;       // in the order of their starts
};

static Instance read(const char* name) {
  std::ifstream in(name);
  Instance x;
  size_t links = 0, flows = 0;
  in >> links >> flows;
  x.capacity.resize(links);
  for (double& c : x.capacity) in >> c;
  x.flows.resize(flows);
  for (Flow& f : x.flows) {
    size_t hops = 0;
    in >> f.start >> f.bytes >> hops;
    f.path.resize(in ? hops : 0);
    for (int& l : f.path) in >> l;
  }
  if (!in) {
    std::fprintf(stderr, "%s: cannot be read to its end\n", name);
    std::exit(1);
  }
  return x;
}

static void build(Instance& x) {
  auto* zone = sg::create_full_zone("net");
  std::vector<sg::Link*> links;
  for (size_t i = 0; i < x.capacity.size(); i++)
    links.push_back(zone->create_link("l" + std::to_string(i), x.capacity[i])->set_latency(0)->seal());
  std::map<std::vector<int>, std::pair<sg::Host*, sg::Host*>> ends;
  for (Flow& f : x.flows) {
    auto& pair = ends[f.path];
    if (pair.first == nullptr) {
      const std::string n = std::to_string(ends.size());
      pair = {zone->create_host("s" + n, 1e9)->seal(), zone->create_host("d" + n, 1e9)->seal()};
    }
    f.from = pair.first;
    f.to   = pair.second;
  }
  for (const auto& [path, pair] : ends) {
    std::vector<sg::LinkInRoute> route;
    for (int l : path) route.emplace_back(links[l]);
    zone->add_route(pair.first->get_netpoint(), pair.second->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
}

int main(int argc, char** argv) {
  sg::Engine e(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s INSTANCE [--log=...] [--cfg=...]\n", argv[0]);
    return 2;
  }
  // The plain fluid: no window limit, no factors, no reverse traffic.
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/TCP-gamma:0");
  sg::Engine::set_config("network/crosstraffic:0");
  Instance x = read(argv[1]);
  build(x);
  std::vector<sg::CommPtr> comms(x.flows.size());
  sg::Actor::create("starter", x.flows.front().from, [&x, &comms] {
    for (size_t i = 0; i < x.flows.size(); i++) {
      const Flow& f = x.flows[i];
      sg::this_actor::sleep_until(f.start);
      comms[i] = sg::Comm::sendto_async(f.from, f.to, static_cast<uint64_t>(f.bytes));
    }
    for (auto& c : comms) c->wait();
  });
  const auto began = std::chrono::steady_clock::now();
  e.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%.6f\n", took.count());
  for (const auto& c : comms) std::printf("%.12f\n", c->get_finish_time());
  return 0;
}
