//! Loops of the IR as loops of Python around the method of their body.

use rtc_compiler::ir::attribute::{self, Chunking, Compose, Noise, Overflow, Padding, Role, StepBound};
use rtc_compiler::ir::graph::{Node, NodeId, RegionId, Value};
use rtc_compiler::ir::loops::{self, Cut};
use rtc_compiler::ir::ops::{Flag, Op};

use super::code::{Binds, Code};
use super::expression::row_bound;
use super::layers::LayerCopies;
use super::ops::rows_of;
use super::python::{identifier, is_of_modules, repr};
use super::region::{MethodBody, MethodWriter, TorchMethod};
use crate::Refused;

/// The longest line.
const WIDTH: usize = 112;

/// `name(args)` as one line or as one line per argument.
fn call(name: &str, args: &[String]) -> Vec<String> {
    let line = format!("{name}({})", args.join(", "));
    if line.len() <= WIDTH {
        return vec![line];
    }
    let inner = args.iter().map(|arg| format!("    {arg},"));
    std::iter::once(format!("{name}(")).chain(inner).chain([")".to_owned()]).collect()
}

impl MethodWriter<'_> {
    /// The statements of a loop.
    pub(super) fn looped(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        match self.graph.node(id).op {
            Op::Recur => self.recur(body, id),
            Op::Chunks => self.chunks(body, id),
            Op::Fold => self.fold(body, id),
            Op::Beam => self.beam(body, id),
            op => Err(Refused(format!("the op `{op}`"))),
        }
    }

    /// Writes the method of a region; gives its name.
    fn method(
        &mut self,
        node: &Node,
        region: RegionId,
        suffix: &str,
        doc: &str,
        params: &[(Value, String)],
    ) -> Result<String, Refused> {
        let (name, place) = self.announced(&format!("{}_{suffix}", node.label), doc);
        let copy = self.copy.take();
        let inside = self.body(region, params)?;
        let end = self.graph.terminator(region).ok_or_else(|| Refused("a body without an end".to_owned()))?;
        let results = self.graph.node(end).operands.clone();
        self.close(place, inside, params, &results)?;
        self.copy = copy;
        Ok(name)
    }

    /// A method that is going to be written: its name, and its place among the methods.
    fn announced(&mut self, wish: &str, doc: &str) -> (String, usize) {
        let base = identifier(wish);
        let taken = |name: &String| {
            is_of_modules(name) || self.parts.has(name) || self.methods.iter().any(|method| method.name == *name)
        };
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base);
        self.methods.push(TorchMethod { name: name.clone(), doc: doc.to_owned(), ..TorchMethod::default() });
        (name, self.methods.len() - 1)
    }

    /// Puts the statements of a method into its place.
    fn close(
        &mut self,
        place: usize,
        mut inside: MethodBody,
        params: &[(Value, String)],
        results: &[Value],
    ) -> Result<(), Refused> {
        let names = params.iter().map(|(value, _)| inside.scope.name(*value).unwrap_or("_").to_owned());
        self.methods[place].params.extend(names);
        let results = self.texts(&inside, results)?;
        inside.lines.push(format!("return {}", results.join(", ")));
        self.methods[place].lines = inside.lines;
        Ok(())
    }

    /// Copies of layers: a loop over their modules around the method of one.
    pub(super) fn copies(&mut self, body: &mut MethodBody, layers: &LayerCopies) -> Result<(), Refused> {
        let graph = self.graph;
        let seen = self.seen_by(layers);
        let handed = layers.made_by(0, graph);
        let starts = layers.starts();
        let mut params = vec![];
        for (value, outside) in handed.iter().zip(&starts).chain(seen.iter().zip(&seen)) {
            params.push((*value, body.scope.name(*outside).unwrap_or("x").to_owned()));
        }
        let (method, place) =
            self.announced(&format!("{}_layer", layers.slot), "One of the layers, with its own parameters.");
        self.methods[place].params.push("layer".to_owned());
        let results = layers.made_by(1, graph);
        let slot = layers.pattern_slot();
        let copy = self.copy.replace(slot.clone());
        let inside = self.statements(layers.pattern(), &slot, &results, &params)?;
        self.close(place, inside, &params, &results)?;
        self.copy = copy;
        body.enter(layers.slot.clone());
        let (starts, seen) = (self.texts(body, &starts)?, self.texts(body, &seen)?);
        let names = self.loop_names(body, &layers.results(graph), &starts, &seen);
        let list = self.parts.path(&layers.slot, self.copy.as_deref()).inside(Binds::Argument);
        body.lines.push(format!("for layer in {list}:"));
        let inputs: Vec<String> =
            ["rows", "layer"].map(str::to_owned).into_iter().chain(names.clone()).chain(seen).collect();
        body.lines.push(format!("    {} = self.{method}({})", names.join(", "), inputs.join(", ")));
        Ok(())
    }

    /// Values as expressions.
    fn texts(&self, body: &MethodBody, values: &[Value]) -> Result<Vec<String>, Refused> {
        values.iter().map(|v| Ok(self.operand(body, *v)?.inside(Binds::Argument))).collect()
    }

    /// Names of what a plain loop carries, with a statement that sets them to their starts where those have other names.
    fn loop_names(&self, body: &mut MethodBody, results: &[Value], starts: &[String], seen: &[String]) -> Vec<String> {
        // What the body goes on reading keeps its name until the loop has ended.
        let end = body.at + 1;
        seen.iter().for_each(|name| body.scope.hold(name, end));
        let mut names = vec![];
        for (value, start) in results.iter().zip(starts) {
            let last = body.until(*value).max(end);
            let hint = self.graph.hint(*value);
            let plain = start.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let made = self.graph.producer(*value).map(|id| self.graph.node(id).op.def().name);
            let wish = if made == Some(hint) && plain { start.as_str() } else { hint };
            names.push(body.scope.define(*value, wish, body.at, last));
        }
        if names != starts {
            body.lines.push(format!("{} = {}", names.join(", "), starts.join(", ")));
        }
        names
    }

    /// Values with what they are packed along: `[(x, "length"), (t, "row")]`.
    fn pairs(&self, body: &MethodBody, values: &[Value]) -> Result<String, Refused> {
        let pair = |v: &Value| {
            let pair = [self.operand(body, *v)?, Code::atom(self.packed(*v))].map(|code| code.inside(Binds::Argument));
            Ok(format!("({})", pair.join(", ")))
        };
        Ok(format!("[{}]", values.iter().map(pair).collect::<Result<Vec<_>, Refused>>()?.join(", ")))
    }

    /// `captured=[...]`, where there is something.
    fn captured(&self, body: &MethodBody, values: &[Value]) -> Result<Option<String>, Refused> {
        if values.is_empty() { Ok(None) } else { Ok(Some(format!("captured={}", self.pairs(body, values)?))) }
    }

    /// Names that the parameters of a method get: hints of the values, or names that they have outside.
    fn params(&self, body: &MethodBody, params: &[Value], captured: &[Value]) -> Vec<(Value, String)> {
        let own = params.iter().map(|v| (*v, self.graph.hint(*v).to_owned()));
        let outer = captured.iter().map(|v| (*v, body.scope.name(*v).unwrap_or("value").to_owned()));
        own.chain(outer).collect()
    }

    /// Names for the results of a loop, but a tape.
    fn results(&mut self, body: &mut MethodBody, node: &Node) -> Vec<String> {
        let graph = self.graph;
        node.results.iter().map(|v| body.define(*v, graph.hint(*v))).collect()
    }

    fn recur(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        let graph = self.graph;
        let node = graph.node(id);
        let region = node.body.ok_or_else(|| Refused("a loop without a body".to_owned()))?;
        let layout = loops::layout(graph, id);
        let captured = self.captures(region);
        let params = graph.params(region);
        let (state, step) = params.split_at(layout.carried);
        let counts = !graph.is_unused(step[0]);
        let own: Vec<Value> = step.iter().filter(|_| counts).chain(state).copied().collect();
        let named = self.params(body, &own, &captured);
        let method = self.method(node, region, "step", "One step.", &named)?;
        let bound = node.get(attribute::BOUND);
        if let (StepBound::Steps(bound), 0) = (bound, layout.go) {
            return self.plain_recur(body, node, (bound, counts), &method, &captured);
        }
        self.sections.push("recur");
        let mut args = vec!["rows".to_owned(), self.pairs(body, &node.operands)?];
        args.extend(self.captured(body, &captured)?);
        let bound = match bound {
            StepBound::Steps(steps) => steps.to_string(),
            StepBound::Rule(rule) => row_bound(graph, node, rule, &mut self.sections)?,
        };
        let step = if counts { body.scope.fresh("step", body.at, body.at) } else { "_".to_owned() };
        body.lines.extend(call("loop = Recurrence", &args));
        body.lines.push(format!("for {step} in loop.steps({bound}):"));
        let inputs = ["loop.rows"].into_iter().map(str::to_owned).chain(counts.then(|| step.clone()));
        let mut inputs: Vec<String> = inputs.chain(["*loop.state".to_owned()]).collect();
        inputs.extend((!captured.is_empty()).then(|| "*loop.seen()".to_owned()));
        let run = format!("self.{method}({})", inputs.join(", "));
        if layout.go > 0 {
            body.lines.push(format!("    *state, go = {run}"));
            body.lines.push("    loop.next(*state, go=go)".to_owned());
        } else {
            let star = if layout.carried > 1 { "*" } else { "" };
            body.lines.push(format!("    loop.next({star}{run})"));
        }
        let names = self.results(body, node);
        body.lines.push(format!("{} = loop.end()", targets(&names)));
        Ok(())
    }

    /// A recurrence of which no row leaves.
    fn plain_recur(
        &mut self,
        body: &mut MethodBody,
        node: &Node,
        (bound, counts): (usize, bool),
        method: &str,
        captured: &[Value],
    ) -> Result<(), Refused> {
        let (starts, seen) = (self.texts(body, &node.operands)?, self.texts(body, captured)?);
        let step = if counts { self.counter(body, &seen) } else { "_".to_owned() };
        let names = self.loop_names(body, &node.results, &starts, &seen);
        body.lines.push(format!("for {step} in range({bound}):"));
        let inputs =
            ["rows".to_owned()].into_iter().chain(counts.then(|| step.clone())).chain(names.clone()).chain(seen);
        let inputs: Vec<String> = inputs.collect();
        body.lines.push(format!("    {} = self.{method}({})", names.join(", "), inputs.join(", ")));
        Ok(())
    }

    /// The name of the counter of a loop, whose body goes on reading what it has `seen`.
    fn counter(&self, body: &mut MethodBody, seen: &[String]) -> String {
        seen.iter().for_each(|name| body.scope.hold(name, body.at + 1));
        body.scope.fresh("step", body.at, body.at + 1)
    }

    fn chunks(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        let graph = self.graph;
        let node = graph.node(id);
        let region = node.body.ok_or_else(|| Refused("a loop without a body".to_owned()))?;
        let layout = loops::layout(graph, id);
        let captured = self.captures(region);
        let named = self.params(body, graph.params(region), &captured);
        let method = self.method(node, region, "chunk", "One chunk of every row that has one.", &named)?;
        if node.get(attribute::CUT) == Chunking::Chosen {
            return self.chosen(body, node, &method, &captured);
        }
        self.sections.push("chunks");
        let (state, sequences) = node.operands.split_at(layout.carried);
        let (over, axis) = (node.get(attribute::OVER), node.get(attribute::AXIS));
        let mut args = vec!["rows".to_owned(), repr(over), repr(axis), self.widths(node)];
        args.extend([self.pairs(body, state)?, self.pairs(body, sequences)?]);
        args.extend(self.captured(body, &captured)?);
        body.lines.extend(call("loop = Chunks", &args));
        body.lines.push("for part in loop:".to_owned());
        let star = if layout.carried + layout.given > 1 { "*" } else { "" };
        body.lines.push(format!("    loop.next({star}self.{method}(*part))"));
        let names = self.results(body, node);
        body.lines.push(format!("{} = loop.end()", targets(&names)));
        Ok(())
    }

    /// A choice: the method runs once, on the chosen positions.
    fn chosen(&mut self, body: &mut MethodBody, node: &Node, method: &str, captured: &[Value]) -> Result<(), Refused> {
        self.sections.push("chosen");
        let (over, axis) = (node.get(attribute::OVER), node.get(attribute::AXIS));
        let shape = |v: &Value| {
            let sizes: Vec<String> = self.graph.ty(*v).dims()[2..].iter().map(|dim| format!("{dim},")).collect();
            format!("({})", sizes.join(" "))
        };
        let shapes: Vec<String> = node.results.iter().map(shape).collect();
        let mut args = vec!["rows".to_owned(), repr(over), repr(axis)];
        args.extend([format!("[{}]", shapes.join(", ")), self.pairs(body, &node.operands)?]);
        args.extend(self.captured(body, captured)?);
        body.lines.extend(call("loop = Chosen", &args));
        body.lines.push("for part in loop:".to_owned());
        let star = if node.results.len() > 1 { "*" } else { "" };
        body.lines.push(format!("    loop.next({star}self.{method}(*part))"));
        let names = self.results(body, node);
        body.lines.push(format!("{} = loop.end()", targets(&names)));
        Ok(())
    }

    /// The widths of the chunks of all rows.
    fn widths(&mut self, node: &Node) -> String {
        let (axis, balanced) = (rows_of(node.get(attribute::OVER)), node.get(attribute::CUT) == Chunking::Balanced);
        match (node.find(attribute::COUNT), node.find(attribute::SIZE).unwrap_or(1)) {
            (Some(count), _) if balanced => format!("[-(-max(n, rows.width) // {count}) for n in {axis}.lengths]"),
            (Some(count), _) => format!("[-(-n // {count}) for n in {axis}.lengths]"),
            (None, size) if balanced => {
                self.sections.push("widths");
                format!("equal_widths({axis}, {size}, rows.width)")
            }
            (None, size) => format!("[{size}] * rows.count"),
        }
    }

    fn fold(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        let graph = self.graph;
        let node = graph.node(id);
        let region = node.body.ok_or_else(|| Refused("a loop without a body".to_owned()))?;
        let numbers = loops::layout(graph, id).given;
        let captured = self.captures(region);
        let named = self.params(body, graph.params(region), &captured);
        let method =
            self.method(node, region, "level", "One level: a vector for every chunk, which is a row here.", &named)?;
        self.sections.push("fold");
        let nodes = self.operand(body, node.operands[0])?.inside(Binds::Argument);
        let mut args = vec!["rows".to_owned(), nodes, repr(node.get(attribute::OVER))];
        args.extend([repr(node.get(attribute::AXIS)), self.cut(node)?]);
        args.extend(node.find(attribute::FILLED).map(|axis| format!("filled={}", repr(axis))));
        args.extend(self.captured(body, &captured)?);
        body.lines.extend(call("loop = Fold", &args));
        body.lines.push("for part in loop.levels():".to_owned());
        let star = if numbers > 0 { "*" } else { "" };
        body.lines.push(format!("    loop.next({star}self.{method}(*part))"));
        let names = self.results(body, node);
        let numbers = if numbers > 0 { format!("numbers={numbers}") } else { String::new() };
        body.lines.push(format!("{} = loop.end({numbers})", targets(&names)));
        Ok(())
    }

    /// How a fold cuts its rows.
    fn cut(&mut self, node: &Node) -> Result<String, Refused> {
        let cut = Cut::of(node).ok_or_else(|| Refused("a fold without an arity".to_owned()))?;
        let mut args = vec![cut.arity.to_string()];
        let words = [("strict", cut.strict), ("by_batch", cut.by_batch), ("first", cut.first), ("single", cut.single)];
        args.extend(words.iter().filter(|(_, set)| *set).map(|(name, _)| format!("{name}=True")));
        match cut.padding {
            Padding::None => {}
            Padding::Input => args.push("padding=\"input\"".to_owned()),
            Padding::Levels => args.push("padding=\"levels\"".to_owned()),
        }
        let text = format!("Cut({})", args.join(", "));
        if node.op == Op::Fold && node.get(attribute::FLAT) {
            self.flat = true;
            return Ok(format!("self.cut({text})"));
        }
        Ok(text)
    }

    fn beam(&mut self, body: &mut MethodBody, id: NodeId) -> Result<(), Refused> {
        let graph = self.graph;
        let node = graph.node(id);
        let region = node.body.ok_or_else(|| Refused("a loop without a body".to_owned()))?;
        let captured = self.captures(region);
        let mut methods = vec![];
        for (role, doc) in [
            (Role::Join, "What two nodes become; a pair is a row here."),
            (Role::Score, "How good it is to join a pair."),
        ] {
            let part = loops::part(graph, region, role).and_then(|part| graph.node(part).body);
            let part = part.ok_or_else(|| Refused("a search without its parts".to_owned()))?;
            let named = self.params(body, graph.params(part), &captured);
            methods.push(self.method(node, part, role.name(), doc, &named)?);
        }
        self.sections.push("beam");
        let mut args = vec!["rows".to_owned(), self.operand(body, node.operands[0])?.inside(Binds::Argument)];
        args.extend([node.get(attribute::OVER), node.get(attribute::AXIS)].map(repr));
        args.push(node.get(attribute::BEAMS).to_string());
        let single = loops::layout(graph, id).given == 0;
        args.push(if single {
            format!("lambda *pair: [self.{}(*pair)]", methods[0])
        } else {
            format!("self.{}", methods[0])
        });
        args.push(format!("self.{}", methods[1]));
        args.push("self.training".to_owned());
        let fresh = is_random(self, region);
        let flags = [
            ("every", node.get(attribute::COMPOSE) == Compose::Every),
            ("soften", node.get(attribute::OVERFLOW) == Overflow::Soften),
            ("noise", node.get(attribute::NOISE) == Noise::Gumbel),
            ("fresh", fresh),
        ];
        args.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| format!("{name}=True")));
        if Cut::of(node).is_some() {
            let cut = self.cut(node)?;
            let flat = node.get(attribute::FLAT);
            self.flat |= flat;
            args.push(if flat { format!("cut=None if self.is_flat() else {cut}") } else { format!("cut={cut}") });
            args.push(format!("align=\"{}\"", node.get(attribute::ALIGN)));
            args.extend((!node.get(attribute::KEEP_BEST)).then(|| "keep_best=False".to_owned()));
        }
        args.extend(self.captured(body, &captured)?);
        body.lines.extend(call("loop = Beam", &args));
        let names = self.results(body, node);
        let numbers = loops::layout(graph, id).given;
        let numbers = if numbers > 0 { format!("numbers={numbers}") } else { String::new() };
        body.lines.push(format!("{} = loop.run({numbers})", targets(&names)));
        Ok(())
    }
}

/// Names on the left of `=` that take a list apart.
fn targets(names: &[String]) -> String {
    match names {
        [one] => format!("[{one}]"),
        names => names.join(", "),
    }
}

/// Whether equal pairs can become different nodes in training.
fn is_random(writer: &MethodWriter<'_>, region: RegionId) -> bool {
    let graph = writer.graph;
    graph.walk(region).into_iter().map(|id| graph.node(id)).any(|node| {
        let rate = [attribute::P, attribute::DROPOUT].into_iter().any(|key| node.find(key).is_some_and(|p| p > 0.0));
        node.op.has(Flag::Random) && rate
    })
}
