-- Fair shares: flows.cc. The flows of a level are one flat array: V, then for each flow its key,
-- virtual time, weight, when it last asked, when it was last refused, and 1 if that was its last
-- answer. S.jobs holds those of the jobs, S.models those of the models of each job.


function F.flow_of(flows, key)
  for i = 2, #flows, STRIDE do if flows[i] == key then return i end end
end

function F.virtual(us, weight)
  local scaled = max(-MOST_US, min(us, MOST_US)) * 16000 / weight
  return scaled < 0 and -floor(-scaled) or floor(scaled)
end

-- True if the flow is new, and those that have not asked for long are forgotten.
function F.flow_ask(flows, key, weight, window)
  local i = F.flow_of(flows, key)
  local is_new = not i
  if is_new then
    local n = 2
    for j = 2, #flows, STRIDE do
      if flows[j + SEEN] >= now - window then
        for k = 0, STRIDE - 1 do flows[n + k] = flows[j + k] end
        n = n + STRIDE
      end
    end
    for j = #flows, n, -1 do flows[j] = nil end
    i = n
    flows[i], flows[i + VIRTUAL], flows[i + REFUSED_AT], flows[i + REFUSED] = key, 0, NEVER, 0
  end
  flows[i + WEIGHT], flows[i + SEEN] = weight, now
  if is_new or flows[i + REFUSED_AT] < now - window then
    flows[i + VIRTUAL] = max(flows[i + VIRTUAL], flows[1])
  end
  return is_new
end

function F.flow_yields(flows, key, window)
  if #flows < 1 + 2 * STRIDE then return false end
  local self = F.flow_of(flows, key)
  if not self then return false end
  local tolerated, since = flows[self + VIRTUAL] - FAIR_WINDOW, now - window
  for i = 2, #flows, STRIDE do
    if flows[i + REFUSED] == 1 and flows[i + REFUSED_AT] >= since
       and flows[i + VIRTUAL] < tolerated then return true end
  end
  return false
end

function F.flow_served(flows, key, us)
  local i = F.flow_of(flows, key)
  if not i then return end
  flows[i + REFUSED] = 0
  flows[1] = max(flows[1], flows[i + VIRTUAL])
  flows[i + VIRTUAL] = flows[i + VIRTUAL] + max(1, F.virtual(us, flows[i + WEIGHT]))
end

function F.flow_refused(flows, key)
  local i = F.flow_of(flows, key)
  if i then flows[i + REFUSED], flows[i + REFUSED_AT] = 1, now end
end

function F.flow_correct(flows, key, us)
  local i = F.flow_of(flows, key)
  if i then flows[i + VIRTUAL] = flows[i + VIRTUAL] + F.virtual(us, flows[i + WEIGHT]) end
end

function F.fair_ask(job, model, job_weight, weight, window)
  if F.flow_ask(S.jobs, job, job_weight, window) then F.forget_models() end
  local flows = S.models[job]
  if not flows then
    flows = {0}
    S.models[job] = flows
  end
  F.flow_ask(flows, model, weight, window)
end

function F.fair_yields(job, model, window)
  return F.flow_yields(S.jobs, job, window) or F.flow_yields(S.models[job], model, window)
end

function F.fair_served(job, model, us)
  F.flow_served(S.jobs, job, us)
  F.flow_served(S.models[job], model, us)
end

function F.fair_refused(job, model)
  F.flow_refused(S.jobs, job)
  F.flow_refused(S.models[job], model)
end

function F.fair_correct(job, model, us)
  if us == 0 then return end
  F.flow_correct(S.jobs, job, us)
  if S.models[job] then F.flow_correct(S.models[job], model, us) end
end
