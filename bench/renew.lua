-- One renewal a request, of a run drawn at random, by the owner that holds them all.
local runs = tonumber(os.getenv("BENCH_RUNS"))
local body = '{"owner":"worker-1","fencingToken":1,"leaseTtlMs":86400000}'
local headers = { ["Content-Type"] = "application/json" }
math.randomseed(os.time())

request = function()
  local path = string.format("/v1/runs/run-%07d/renew", math.random(0, runs - 1))
  return wrk.format("POST", path, headers, body)
end

done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests_s": %.1f, "p50_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, "errors": %d}\n',
    summary.requests / (summary.duration / 1e6),
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status))
end
