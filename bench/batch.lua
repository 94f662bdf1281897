-- A thousand leases a request, neighbours in the list of runs, by the owner that holds them all.
local runs = tonumber(os.getenv("BENCH_RUNS"))
local size = 1000
local headers = { ["Content-Type"] = "application/json" }
local bodies = {}
for first = 0, runs - size, size do
  local leases = {}
  for i = first, first + size - 1 do
    leases[#leases + 1] = string.format('{"runId":"run-%07d","fencingToken":1}', i)
  end
  bodies[#bodies + 1] = '{"owner":"worker-1","leaseTtlMs":86400000,"leases":['
    .. table.concat(leases, ",") .. "]}"
end
math.randomseed(os.time())

request = function()
  return wrk.format("POST", "/v1/leases/renew", headers, bodies[math.random(#bodies)])
end

done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests_s": %.3f, "p50_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, "errors": %d}\n',
    summary.requests * size / (summary.duration / 1e6),
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status))
end
