-- SPDX-License-Identifier: GPL-3.0-or-later
-- slurm.conf: JobSubmitPlugins=lua. Slurm reads this file as job_submit.lua beside slurm.conf.
--
-- Takes what a job says of its input from, in this order, --hdfs-input (spank_phalanx.so), a line
-- `#HDFS input=URI[,URI...][;split=...][;recursive][;locality=...]` of its script, the variable
-- HDFS_INPUT, or `hdfs-input=` in its comment, and writes it into admin_comment, where users
-- cannot change it. A site with a job_submit.lua of its own calls phalanx_input() from there.
-- HDFS itself is never asked here: slurmctld holds its locks meanwhile.

local function from_environment(job, name)
	if job.environment == nil then
		return nil
	end
	local value = job.environment[name]
	if value == nil or value == "" then
		return nil
	end
	return value
end

-- What spank_phalanx.so passes on.
local function from_spank(job)
	for _, entry in pairs(job.spank_job_env or {}) do
		local value = string.match(tostring(entry), "^SPANK_HDFS_INPUT=(.+)$")
		if value ~= nil then
			return value
		end
	end
	return nil
end

local function from_script(job)
	if job.script == nil then
		return nil
	end
	for line in string.gmatch(job.script, "[^\n]+") do
		local value = string.match(line, "^#HDFS%s+input=(%S+)%s*$")
		if value ~= nil then
			return value
		end
		-- Directives end where commands begin.
		if not string.match(line, "^%s*#") and not string.match(line, "^%s*$") then
			return nil
		end
	end
	return nil
end

-- What is wrong with a declaration; nil if nothing is.
local function wrong(value)
	local first = true
	for part in string.gmatch(value, "[^;]+") do
		if first then
			for uri in string.gmatch(part .. ",", "([^,]*),") do
				if not string.match(uri, "^/") and not string.match(uri, "^%a+://") then
					return "`" .. uri .. "`: expected an absolute path, hdfs:// or webhdfs://"
				end
			end
			first = false
		elseif not (part == "recursive" or string.match(part, "^split=block$") or
			    string.match(part, "^split=[1-9]%d*[kKmMgG]?$") or
			    part == "locality=prefer" or part == "locality=require" or
			    part == "locality=off") then
			return "`" .. part .. "`: expected split=block|N|SIZE, recursive or " ..
			       "locality=prefer|require|off"
		end
	end
	if first then
		return "expected a path or URI"
	end
	return nil
end

function phalanx_input(job)
	local value = from_spank(job) or from_script(job) or
		      from_environment(job, "HDFS_INPUT")
	if value == nil and job.comment ~= nil then
		value = string.match(job.comment, "hdfs%-input=(.*)$")
		if value ~= nil then
			-- The comment has the user's own words too: the daemon reads it as it is.
			return slurm.SUCCESS
		end
	end
	if value == nil then
		return slurm.SUCCESS
	end
	local text = wrong(value)
	if text ~= nil then
		slurm.log_user("hdfs input: " .. text)
		return slurm.ERROR
	end
	job.admin_comment = "hdfs-input=" .. value
	return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	return phalanx_input(job_desc)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
